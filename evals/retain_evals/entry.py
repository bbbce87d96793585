"""Where the command `retain-eval` enters: it tells what to install when the extra is missing."""

import sys


def run() -> None:
    """Run the command line of this process and end it."""
    try:
        from retain_evals.cli import run as run_cli
    except ModuleNotFoundError as error:
        sys.stderr.write(f'error: retain-eval needs {error.name}: pip install "retain[evals]"\n')
        sys.exit(1)
    run_cli()
