"""The command `retain-eval answer`: what is found, answered by one language model and judged by another."""

import asyncio
import json
import sys
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from retain import InvalidInputError
from retain_evals import answering
from retain_evals.answering import AnswerFolder, Endpoint, Estimate, Granularity, Plan, Prices, Reading, Summary
from retain_evals.comparison import NamedRun, runs_at
from retain_evals.datasets import Benchmark, open_benchmark
from retain_evals.datasets.benchmark import BenchmarkName
from retain_evals.progress import Progress

_KEY: Final = "OPENAI_API_KEY"
_JUDGE_KEY: Final = "RETAIN_JUDGE_API_KEY"
_READER_PANEL: Final = "Who answers"
_JUDGE_PANEL: Final = "Who judges"


def _option(*names: str, help: str, panel: str | None = None, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


def _key(name: str, variable: str, panel: str) -> Any:
    return typer.Option(name, metavar="KEY", help="Its key.", envvar=variable, rich_help_panel=panel)


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A folder with one run, or a run in it (….jsonl).")]
DataOption = Annotated[str, _option("--data", metavar="FILE_OR_NAME", help="The data of the run.")]
OutOption = Annotated[Path | None, _option("--out", metavar="DIR", help="Folder of the answers; by default in RUN.")]
KOption = Annotated[int, _option("--k", help="How many of the found memories are read, 1 to 20.")]
GranularityOption = Annotated[
    Granularity, _option("--granularity", help="Read whole sessions, or the rounds around the turns that were found.")
]
ReadingOption = Annotated[Reading, _option("--reading", help="Chain of note, or a direct answer.")]
AtOnceOption = Annotated[int, _option("--concurrency", metavar="N", help="Questions under way at the same time.")]
YesOption = Annotated[bool, _option("--yes", "-y", help="Send without asking.")]
JsonOption = Annotated[bool, _option("--json", help="Print the outcome as one JSON document.")]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Fetch no data.", envvar="RETAIN_OFFLINE")]
UrlOption = Annotated[
    str, _option("--base-url", metavar="URL", help="An OpenAI-compatible address, up to /v1.", panel=_READER_PANEL)
]
ModelOption = Annotated[str, _option("--model", metavar="NAME", help="The reader.", panel=_READER_PANEL)]
PriceOption = Annotated[
    str | None,
    _option("--price", metavar="IN,OUT", help="Of a million tokens, for the estimate of costs.", panel=_READER_PANEL),
]
JudgeUrlOption = Annotated[
    str | None, _option("--judge-base-url", metavar="URL", help="By default the reader's.", panel=_JUDGE_PANEL)
]
JudgeModelOption = Annotated[
    str | None, _option("--judge-model", metavar="NAME", help="By default the reader's.", panel=_JUDGE_PANEL)
]
JudgePriceOption = Annotated[
    str | None, _option("--judge-price", metavar="IN,OUT", help="By default the reader's.", panel=_JUDGE_PANEL)
]


@dataclass(frozen=True, slots=True)
class _Work:
    """What one call of the command is about."""

    benchmark: Benchmark
    run: NamedRun
    plan: Plan
    folder: AnswerFolder


def register(app: typer.Typer, /) -> None:
    """Add the command."""
    app.command("answer")(answer)


def answer(
    run: RunArgument,
    data: DataOption,
    base_url: UrlOption,
    model: ModelOption,
    api_key: Annotated[str | None, _key("--api-key", _KEY, _READER_PANEL)] = None,
    price: PriceOption = None,
    judge_model: JudgeModelOption = None,
    judge_base_url: JudgeUrlOption = None,
    judge_api_key: Annotated[str | None, _key("--judge-api-key", _JUDGE_KEY, _JUDGE_PANEL)] = None,
    judge_price: JudgePriceOption = None,
    out: OutOption = None,
    k: KOption = 5,
    granularity: GranularityOption = "session",
    reading: ReadingOption = "con",
    concurrency: AtOnceOption = 4,
    offline: OfflineOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Let a language model answer the questions of a run, and another one judge, in LongMemEval's protocol.

    What it will cost is told first; nothing is sent before you agree. An interrupted run goes on where it stopped.
    """
    chosen = _the_run(run)
    reader = Endpoint(base_url, model, api_key, _KEY)
    judge = reader.for_judge(model=judge_model, base_url=judge_base_url, api_key=judge_api_key, key_variable=_JUDGE_KEY)
    source = {"data": chosen.manifest.data["sha256"], "run": chosen.run.name}
    work = _Work(
        open_benchmark(cast("BenchmarkName", chosen.manifest.benchmark), data, offline=offline),
        chosen,
        Plan(source, reader, judge, k=k, granularity=granularity, reading=reading),
        AnswerFolder(out or chosen.folder / f"{chosen.run.name}.answers"),
    )
    prices, judge_prices = _prices(price), _prices(judge_price)
    work.folder.require(work.plan.settings())
    estimate = answering.estimate(work.benchmark, chosen.asked, work.plan, work.folder.read())
    sys.stderr.write(_told(estimate, prices, judge_prices))
    if estimate.questions:
        if not yes and not typer.confirm("Send this?", err=True):
            sys.stderr.write("nothing was sent\n")
            raise typer.Exit(1)
        asyncio.run(_answer(work, estimate, concurrency))
    _print(answering.summary(work.folder.read().values(), len(chosen.asked)), as_json=json)


def _the_run(path: Path) -> NamedRun:
    runs = runs_at(path)
    if len(runs) != 1:
        told = ", ".join(f"{run}.jsonl" for run in runs.values())
        raise InvalidInputError(f"{path} holds {len(runs)} runs; name one: {told}", field="run")
    return next(iter(runs.values()))


def _prices(given: str | None) -> Prices | None:
    if given is None:
        return None
    try:
        price_in, price_out = map(float, given.split(","))
    except ValueError:
        raise InvalidInputError(f"{given!r} is no price; write IN,OUT such as 2.5,10", field="price") from None
    return Prices(price_in, price_out)


def _told(estimate: Estimate, prices: Prices | None, judge_prices: Prices | None) -> str:
    lines = [f"{estimate.questions} questions to answer or judge, {estimate.done} done before"]
    for name, usage in (("reader", estimate.reader), ("judge", estimate.judge)):
        lines.append(
            f"{name}: {usage.calls:,} requests, about {usage.input_tokens:,} tokens in (characters / 4), "
            f"at most {usage.output_tokens:,} out"
        )
    if prices is not None:
        lines.append(f"costs at most about {estimate.cost(prices, judge_prices):.2f}, repeated attempts not counted")
    return "\n".join(lines) + "\n"


async def _answer(work: _Work, estimate: Estimate, concurrency: int) -> None:
    total = estimate.questions + estimate.done
    with Progress("answers", total, estimate.done, shown=True) as progress:
        outcomes = answering.answer_all(work.benchmark, work.run.asked, work.plan, work.folder, concurrency=concurrency)
        async with aclosing(outcomes):
            async for outcome in outcomes:
                progress.advance(1)
                if outcome.error is not None:
                    progress.tell(f"{outcome.question_id}: {outcome.error}")


def _print(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        task_averaged = summary.task_averaged if summary.judged else None  # JSON has no NaN
        document = asdict(summary) | {"failed": summary.failed, "task_averaged": task_averaged}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    rows = {**summary.by_type, "all questions": summary.overall}
    if summary.abstention is not None:
        rows["of these, without an answer"] = summary.abstention
    sys.stdout.write("accuracy, %\n")
    for name, accuracy in rows.items():
        sys.stdout.write(f"  {name:<30}{100 * accuracy.value:6.1f}  ({accuracy.correct} of {accuracy.judged})\n")
    sys.stdout.write(f"  {'mean of the types':<30}{100 * summary.task_averaged:6.1f}\n")
    if summary.failed:
        sys.stdout.write(f"{summary.failed} questions have no verdict; the same command tries them again\n")
