"""The command `retain`. Heavy modules are imported inside the commands, so that `retain --help` is quick."""

import errno
import itertools
import logging
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from retain.transports.cli import configuration, doctor, finding, keys, memories, serving, transfer, upkeep, vocabulary
from retain.transports.cli.command import Call, register_root
from retain.transports.cli.output import close_quietly, never_crash_on_output, show_error

INTERRUPTED = 130
USAGE_ERRORS = typer.BadParameter.__bases__
"""UsageError, which typer does not export."""

_STREAM_FAULTS = (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT)
"""How standard output fails: a full disk, a closed descriptor, a terminal that went away."""

logger = logging.getLogger(__name__)

app = typer.Typer(
    name="retain",
    help="Memory for AI agents: store what they learn, find it again by meaning, on your own machine.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
"""All commands, in the order of their help."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from retain.version import __version__

        sys.stdout.write(f"retain {__version__}\n")
        raise typer.Exit


@register_root(app)
def root(
    call: Call,
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Memory for AI agents: store what they learn, find it again by meaning, on your own machine."""


for module in (memories, finding, transfer, vocabulary, upkeep, doctor, configuration, serving, keys):
    module.register(app)


def run() -> None:
    """Run the command line of this process and end it."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str], /) -> int:
    """Run one command and return its exit code; every failure is one line on stderr (or JSON with `--json`)."""
    never_crash_on_output()
    as_json = "--json" in itertools.takewhile(lambda argument: argument != "--", arguments)
    try:
        outcome: object = app(list(arguments), prog_name="retain", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as ended:
        # typer and rich answer a closed pipe with exit code 1; a reader that has seen enough is no failure.
        if isinstance(ended, SystemExit) and not isinstance(ended.__context__, BrokenPipeError):
            raise
        close_quietly()
        return 0
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("\n")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the outermost edge: one line instead of a traceback
        return _show_failure(error, as_json=as_json)
    return outcome if isinstance(outcome, int) else 0


def _show_failure(error: Exception, *, as_json: bool) -> int:
    from retain.domain.errors import InvalidInputError, RetainError, StoreError

    if isinstance(error, USAGE_ERRORS):
        message = str(getattr(error, "format_message", error.__str__)()).replace("Value error, ", "")
        if not message:  # the help was printed instead
            return 2
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "retain"
        error = InvalidInputError(f"{message.rstrip('.')} (see: {path} --help)")
    elif isinstance(error, OSError) and error.errno in _STREAM_FAULTS and error.filename is None:
        # Files name themselves; what is written here without a name is the answer.
        close_quietly()
        error = StoreError(f"can't write the answer: {error.strerror}")
    elif not isinstance(error, RetainError):
        logger.debug("unexpected", exc_info=error)
        error = RetainError(
            f"unexpected {type(error).__name__}: {error}. This is a fault in Retain; with RETAIN_LOG_LEVEL=debug the "
            "details are shown, please report them"
        )
    return show_error(error, as_json=as_json)


if __name__ == "__main__":
    run()
