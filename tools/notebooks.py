"""Execute the notebooks and write them as HTML to notebooks/rendered.

    python tools/notebooks.py [NAME ...] [--set NAME=VALUE ...]

`--set` replaces a parameter of the notebooks' first code cell; the value is a Python literal or a text.
"""

import argparse
import ast
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "notebooks"
RENDERED = NOTEBOOKS / "rendered"
TIMEOUT_S = 3 * 3600


def with_parameters(notebook: nbformat.NotebookNode, values: Mapping[str, object]) -> nbformat.NotebookNode:
    """Return the notebook with other values in its cell tagged "parameters"; those that it lacks are left out."""
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source = "\n".join(_with_value(line, values) for line in cell.source.splitlines())
    return notebook


def _with_value(line: str, values: Mapping[str, object]) -> str:
    name = line.partition(" = ")[0]
    return f"{name} = {values[name]!r}" if name in values else line


def execute(path: Path, values: Mapping[str, object]) -> nbformat.NotebookNode:
    """Return the notebook with its outputs; an error of a cell is raised."""
    notebook = with_parameters(nbformat.read(path, as_version=4), values)
    NotebookClient(notebook, timeout=TIMEOUT_S, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    return notebook


def render(notebook: nbformat.NotebookNode, title: str, target: Path) -> None:
    """Write a notebook as one HTML file that needs nothing else, code folded away behind the results."""
    exporter = HTMLExporter(embed_images=True, exclude_input_prompt=True, exclude_output_prompt=True)
    html, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})
    target.write_text(html, encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="notebooks by name; all by default")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args(arguments)
    values = {name: _value(text) for name, _, text in (each.partition("=") for each in given.set)}
    RENDERED.mkdir(exist_ok=True)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for path in [NOTEBOOKS / f"{name.removesuffix('.ipynb')}.ipynb" for name in given.names] or sorted(
        NOTEBOOKS.glob("*.ipynb")
    ):
        started = time.monotonic()
        target = RENDERED / f"{path.stem}.html"
        render(execute(path, values), path.stem, target)
        sys.stdout.write(f"{target.relative_to(ROOT)}, {time.monotonic() - started:.0f} s\n")


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    main(sys.argv[1:])
