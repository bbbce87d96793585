"""Many clients at once on one server."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.bench import Bench
from benchmarks.processes import Client, Server
from benchmarks.readings import Reading, Readings, percentile, times
from benchmarks.texts import Text


@dataclass(slots=True)
class _Tally:
    """What one client did: wall seconds of each operation, and what went wrong."""

    stores: list[float] = field(default_factory=list[float])
    recalls: list[float] = field(default_factory=list[float])
    errors: list[str] = field(default_factory=list[str])


def measure(bench: Bench) -> Readings:
    """Store and recall in turns from every client, starting with the small database."""
    plan = bench.plan
    with Server(bench.copy(bench.small, "load")) as server:
        texts = _Shared(bench.fresh_forever())
        client = server.client()
        for text in bench.fresh(plan.warm_up):
            client.recall(text.question)
        client.close()
        server.settle()
        cpu, began = server.cpu_seconds(), time.perf_counter()
        tallies = _run(server, texts, plan.clients, began + plan.load_s)
        took, cpu = time.perf_counter() - began, server.cpu_seconds() - cpu
    return _summed(tallies, took, cpu)


class _Shared:
    """An iterator that several threads may draw from."""

    def __init__(self, texts: Iterator[Text]) -> None:
        self._texts = texts
        self._lock = threading.Lock()

    def draw(self) -> Text:
        with self._lock:
            return next(self._texts)


def _run(server: Server, texts: _Shared, clients: int, until: float) -> list[_Tally]:
    tallies = [_Tally() for _ in range(clients)]
    threads = [
        threading.Thread(target=_client, args=(server.client(), texts, place, until, tally))
        for place, tally in enumerate(tallies)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tallies


def _client(client: Client, texts: _Shared, place: int, until: float, tally: _Tally) -> None:
    turn = place  # half of the clients begin with a store
    while time.perf_counter() < until:
        text = texts.draw()
        began = time.perf_counter()
        try:
            if turn % 2:
                client.store(text.content, text.tags)
                tally.stores.append(time.perf_counter() - began)
            else:
                client.recall(text.question)
                tally.recalls.append(time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted and shown
            tally.errors.append(f"{type(error).__name__}: {error}")
            client.close()
        turn += 1
    client.close()


def _summed(tallies: list[_Tally], took: float, cpu: float) -> Readings:
    stores = [wall for tally in tallies for wall in tally.stores]
    recalls = [wall for tally in tallies for wall in tally.recalls]
    errors = [error for tally in tallies for error in tally.errors]
    done = len(stores) + len(recalls)
    remark = f"{done:,} in {took:.0f} s; {cpu / done * 1000:.1f} CPU ms each; recall {times(recalls)}"
    return {
        "load_ops": Reading(done / took, remark),
        "load_store_p95": Reading(percentile(stores, 95), times(stores)),
        "load_errors": Reading(len(errors), errors[0][:100] if errors else ""),
    }
