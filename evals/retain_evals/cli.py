"""The command `retain-eval`: measure recall on public benchmarks, compare runs, let a model answer."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import platformdirs
import typer
from rich.console import Console

from retain import InvalidInputError, RetainError
from retain_evals import answer_command, rendering
from retain_evals.comparison import compare as compare_runs
from retain_evals.comparison import paired
from retain_evals.datasets import open_benchmark
from retain_evals.datasets.benchmark import BenchmarkName
from retain_evals.evaluation import Selection, evaluate
from retain_evals.report import Report, report_of
from retain_evals.run import Mode
from retain_evals.run_files import RunFolder
from retain_evals.systems.named import FORMS, Access, settings_of, system_named

INTERRUPTED: Final = 130
_USAGE_ERRORS: Final = typer.BadParameter.__bases__
_RUN_PANEL: Final = "What is asked"
_SYSTEM_PANEL: Final = "Who is asked"

app = typer.Typer(
    name="retain-eval",
    help="Measure how well memories are found: LongMemEval and LoCoMo, on the product as it is installed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Modes = Literal["turn", "session", "both"]


def _asked(*names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=_RUN_PANEL)


def _system(*names: str, help: str, metavar: str | None = None, envvar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, envvar=envvar, rich_help_panel=_SYSTEM_PANEL)


DataOption = Annotated[
    str,
    _asked(
        "--data", metavar="FILE_OR_NAME", help="A .json, .jsonl, .xz or .parquet file, or owner/name:file of the hub."
    ),
]
ModeOption = Annotated[Modes, _asked("--mode", help="A memory for each turn, for each session, or one run of both.")]
SampleOption = Annotated[
    int | None, _asked("--sample", metavar="N", help="Ask N questions only, drawn from each type by its size.")
]
SeedOption = Annotated[int, _asked("--seed", help="Of the sample.")]
LimitOption = Annotated[int | None, _asked("--limit", metavar="N", help="Ask the first N questions only.")]
OutOption = Annotated[
    Path | None,
    _asked("--out", metavar="DIR", help="Folder of the run; by default retain-eval/ with the names of the data."),
]
FreshOption = Annotated[
    bool, _asked("--fresh", help="Run anew what the folder holds; without it, what is missing is run.")
]
OfflineOption = Annotated[
    bool,
    typer.Option("--offline", help="Fetch nothing from the hub.", envvar="RETAIN_OFFLINE", rich_help_panel=_RUN_PANEL),
]
SystemOption = Annotated[
    list[str], _system("--system", "-s", metavar="SYSTEM", help=f"Repeat to compare several: {FORMS}; LABEL= renames.")
]
UrlOption = Annotated[
    str | None, _system("--url", metavar="URL", help="Ask a running service instead of databases in this process.")
]
KeyOption = Annotated[str | None, _system("--api-key", metavar="KEY", help="Its key.", envvar="RETAIN_API_KEY")]
SetOption = Annotated[
    list[str] | None, _system("--set", metavar="NAME=VALUE", help="A setting of Retain, repeated for several.")
]
CacheOption = Annotated[
    Path | None,
    _system("--cache", metavar="FILE", help="Where vectors are kept between runs; by default in the cache folder."),
]
NoCacheOption = Annotated[bool, _system("--no-cache", help="Embed every text anew.")]
WorkersOption = Annotated[
    int | None, _system("--workers", metavar="N", help="Processes at work; by default one for each processor.")
]


def _register(name: BenchmarkName, help: str) -> None:
    @app.command(name, help=help)
    def _(
        data: DataOption,
        mode: ModeOption = "turn",
        sample: SampleOption = None,
        seed: SeedOption = 0,
        limit: LimitOption = None,
        out: OutOption = None,
        fresh: FreshOption = False,
        offline: OfflineOption = False,
        system: SystemOption = ["retain"],  # noqa: B006 - typer copies it
        url: UrlOption = None,
        api_key: KeyOption = None,
        set: SetOption = None,
        cache: CacheOption = None,
        no_cache: NoCacheOption = False,
        workers: WorkersOption = None,
    ) -> None:
        access = Access(url, api_key, _cache(cache, no_cache), settings_of(set or []))
        selection = Selection(sample, seed, limit)
        modes: tuple[Mode, ...] = ("turn", "session") if mode == "both" else (mode,)
        folder = evaluate(
            open_benchmark(name, data, offline=offline),
            [system_named(each, access) for each in system],
            modes,
            out or _default_out(name, data, selection),
            selection=selection,
            workers=os.cpu_count() or 1 if workers is None else workers,
            fresh=fresh,
            shown=True,
        )
        _report(folder)


_register("longmemeval", "Run LongMemEval (S, M or oracle): each question has a haystack of chats of its own.")
_register("locomo", "Run LoCoMo: long conversations of two people, each with many questions.")


def _default_out(name: str, data: str, selection: Selection) -> Path:
    stem = Path(data.rpartition(":")[2]).name.split(".")[0]
    parts = [name, stem]
    if selection.sample is not None:
        parts.append(f"sample{selection.sample}-seed{selection.seed}")
    if selection.limit is not None:
        parts.append(f"first{selection.limit}")
    return Path("retain-eval") / "-".join(parts)


def _cache(given: Path | None, no_cache: bool) -> Path | None:
    if no_cache:
        if given is not None:
            raise InvalidInputError("give --cache or --no-cache, not both", field="cache")
        return None
    path = given or Path(platformdirs.user_cache_dir("retain", appauthor=False)) / "evaluation-vectors.db"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"{path.parent} can't be made: {error.strerror}", field="cache") from None
    return path


FolderArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def report(run: FolderArgument, json: JsonOption = False) -> None:
    """Print the tables of a run again, and write its report.md and report.json anew."""
    _report(RunFolder(run), as_json=json)


def _report(folder: RunFolder, *, as_json: bool = False) -> None:
    made = report_of(folder)
    folder.write_text("report.json", made.as_json())
    folder.write_text("report.md", rendering.markdown_of(made))
    if as_json:
        sys.stdout.write(made.as_json())
    else:
        _show(made, folder)


def _show(made: Report, folder: RunFolder) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    rendering.show_report(made, console)
    console.print(f"Intervals, types of questions and all measures: {folder.path / 'report.md'}", soft_wrap=True)


RunArgument = Annotated[Path, typer.Argument(metavar="RUN_A", help="A folder of runs, or a run in it (….jsonl).")]
OtherArgument = Annotated[Path, typer.Argument(metavar="RUN_B", help="Another one, on the same data.")]
AllOption = Annotated[bool, typer.Option("--all", help="List every question that changed, not just the first 20.")]


@app.command()
def compare(run_a: RunArgument, run_b: OtherArgument, all: AllOption = False, json: JsonOption = False) -> None:
    """Say which questions changed from run A to run B, and whether the difference is more than noise."""
    comparisons = [compare_runs(a, b) for a, b in paired(run_a, run_b)]
    if json:
        sys.stdout.write(rendering.comparison_json(comparisons))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    for comparison in comparisons:
        rendering.show_comparison(comparison, console, every=all)


answer_command.register(app)


def run() -> None:
    """Run the command line of this process and end it."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str], /) -> int:
    """Run one command and return its exit code; every failure is one line on stderr."""
    try:
        outcome: object = app(list(arguments), prog_name="retain-eval", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (KeyboardInterrupt, typer.Abort):
        outcome = INTERRUPTED
    except Exception as error:
        if not isinstance(error, (RetainError, OSError, *_USAGE_ERRORS)):
            raise
        return _failed(error)
    if outcome == INTERRUPTED:  # Typer catches some interruptions itself, and returns this code
        sys.stderr.write("\ninterrupted; the same command goes on where it stopped\n")
    return outcome if isinstance(outcome, int) else 0


def _failed(error: Exception) -> int:
    is_usage = isinstance(error, _USAGE_ERRORS)
    message = str(getattr(error, "format_message", error.__str__)())
    if message:  # without one the help was printed
        sys.stderr.write(f"error: {' '.join(message.split())}\n")
    return 2 if is_usage else 1


if __name__ == "__main__":
    run()
