"""The import contracts hold, and each of them can fail."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PACKAGES = ("service/retain", "integrations/retain_integrations", "evals/retain_evals")
PLAIN = {"NO_COLOR": "1", "COLUMNS": "120"}
OFFENCES = {
    "layers": ("service/retain/domain/text.py", "import retain.core.policy"),
    "pure-core": ("service/retain/core/policy.py", "import httpx"),
    "no-server-in-base": ("service/retain/auth/api_keys.py", "import starlette"),
    "adapters-by-bootstrap": ("service/retain/transports/errors.py", "import retain.storage.sqlite"),
    "public-names": ("evals/retain_evals/run.py", "import retain.domain.memory"),
    "product-alone": ("service/retain/domain/text.py", "import retain_evals"),
    "integrations-without-server": ("integrations/retain_integrations/_sync.py", "import mcp"),
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "lint-imports"
    return subprocess.run(
        [program, "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": ":".join(str((folder / package).parent) for package in PACKAGES), "PATH": "", **PLAIN},
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns("models", "__pycache__")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    outcome = lint_imports(copy)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("contract", OFFENCES)
def test_an_offence_breaks_its_contract(contract: str, copy: Path) -> None:
    module, offence = OFFENCES[contract]
    path = copy / module
    path.write_text(f"{path.read_text()}\n{offence}\n")
    outcome = lint_imports(copy)
    assert outcome.returncode == 1
    assert "BROKEN" in outcome.stdout


def test_every_contract_is_known_to_be_able_to_fail() -> None:
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert {contract["id"] for contract in contracts} == set(OFFENCES)
