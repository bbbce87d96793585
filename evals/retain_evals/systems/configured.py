"""What the user's own settings change about recall: they apply to what is evaluated, so a report has to tell."""

import json
import subprocess
import sys


def configured() -> dict[str, str]:
    """Return the settings of recall that come from the environment or from retain.toml, as `retain config` tells."""
    command = [sys.executable, "-m", "retain.transports.cli.main", "config", "--json"]
    told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["settings"]
    return {
        each["name"]: str(each["value"])
        for each in told
        if each["name"].startswith("recall_") and each["source"] != "default"
    }
