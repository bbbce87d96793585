"""The notebooks run from top to bottom, and are kept without outputs."""

from pathlib import Path

import nbformat
import pytest

from tools.notebooks import NOTEBOOKS, execute, render, with_parameters

NAMES = ["01_quickstart", "02_longmemeval", "03_ablation", "04_your_own_data"]
GIVEN_HALF = Path(__file__).parents[3] / "shared" / "data" / "longmemeval_s_dev.json.xz"


def text_of(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(output.get("text", "") or output.get("data", {}).get("text/markdown", "") for output in outputs)


def plots_of(notebook: nbformat.NotebookNode) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_all_notebooks_are_known():
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_kept_without_outputs(name: str):
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_parameters_are_replaced_where_they_are_set():
    notebook = nbformat.read(NOTEBOOKS / "01_quickstart.ipynb", as_version=4)
    changed = with_parameters(notebook, {"SAMPLE": 3, "DATA": "a'b\\c", "UNKNOWN": 1})
    (cell,) = [cell for cell in changed.cells if "parameters" in cell.metadata.get("tags", ())]
    assert "SAMPLE = 3\n" in cell.source and 'DATA = "a\'b\\\\c"\n' in cell.source
    assert "UNKNOWN" not in cell.source and 'RUNS = "runs"' in cell.source


@pytest.mark.parametrize(
    ("name", "expected", "plots"),
    [
        ("01_quickstart", "We moved the deploy freeze", 0),
        ("02_longmemeval", "mcp-memory-service", 4),
        ("03_ablation", "without-surroundings", 2),
        ("04_your_own_data", "labelled: at [1]", 0),
    ],
)
def test_a_notebook_runs_on_the_sample(name: str, expected: str, plots: int, tmp_path: Path):
    values = {"RUNS": str(tmp_path / "runs"), "CACHE": str(tmp_path / "runs" / "vectors.db")}
    notebook = execute(NOTEBOOKS / f"{name}.ipynb", values)
    assert expected in text_of(notebook)
    assert plots_of(notebook) == plots
    render(notebook, name, tmp_path / "page.html")
    assert "<title>" + name in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.timeout(600)
@pytest.mark.skipif(not GIVEN_HALF.exists(), reason="needs the given half of LongMemEval in ../shared/data")
def test_a_notebook_runs_on_the_real_data(tmp_path: Path):
    values = {
        "DATA": str(GIVEN_HALF),
        "SAMPLE": 1,
        "RUNS": str(tmp_path / "runs"),
        "CACHE": str(tmp_path / "runs" / "vectors.db"),
    }
    notebook = execute(NOTEBOOKS / "02_longmemeval.ipynb", values)
    assert "1 questions of longmemeval_s_dev.json.xz" in text_of(notebook)
