"""What is asked of Retain: every row of the table, and the ratios that no change may worsen."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["time", "fact", "ratio", "report"]
"""How a miss counts. "fact": correctness and sizes, the same on every machine, fail the run. "ratio": two values of
the same run compared, fail the run. "time": depends on the machine, fails the run with --strict only. "report":
nothing is asked."""

TIME_TOLERANCE = 0.10
"""By how much a time may miss its figure before --strict fails: what repeated runs on an idle machine differ by."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: its key, what it is in words, the unit, and what is asked.

    Attributes:
        at_most, at_least: The bound, whichever there is.
        from_memories: The bound holds only when the database that is measured has so many; below, fixed costs hide
            the rest.
    """

    key: str
    what: str
    unit: str
    kind: Kind
    at_most: float | None = None
    at_least: float | None = None
    from_memories: int = 0

    @property
    def asked(self) -> str:
        """Return the bound in words; empty when nothing is asked."""
        if self.at_most is not None:
            return f"{self.at_most:,g}" if self.at_most == 0 else f"<= {self.at_most:,g}"
        return "" if self.at_least is None else f">= {self.at_least:,g}"

    def excess(self, value: float, /) -> float:
        """Return by which share of the bound `value` misses it; 0 when it is reached."""
        if self.at_most is not None and value > self.at_most:
            return (value - self.at_most) / self.at_most if self.at_most else float("inf")
        if self.at_least is not None and value < self.at_least:
            return (self.at_least - value) / self.at_least
        return 0.0


FIGURES = (
    Figure("start", "start to first healthy answer, model loaded", "CPU s", "time", at_most=2.0),
    Figure("resident", "resident memory after 100 recalls, large", "MB", "fact", at_most=310),
    Figure("query", "query embedding, 12 tokens", "CPU ms", "time", at_most=11),
    Figure("batch", "batch embedding, 128-token texts", "tokens/s", "time", at_least=3_500),
    Figure("recall_rest_small", "recall over REST, small", "CPU ms", "time", at_most=18),
    Figure("recall_rest_large", "recall over REST, large", "CPU ms", "time", at_most=21),
    Figure("recall_process_small", "recall in process, small", "CPU ms", "report"),
    Figure("recall_process_large", "recall in process, large", "CPU ms", "report"),
    Figure("recall_core_large", "the same without the query embedding", "CPU ms", "time", at_most=3),
    Figure("quality", "questions whose memory is in the top 5, large", "share", "fact", at_least=0.9),
    Figure("store_rest_empty", "store over REST, 60 words, empty", "CPU ms", "time", at_most=50),
    Figure("store_rest_large", "store over REST, 60 words, large", "CPU ms", "time", at_most=50),
    Figure("fill", "store_many, batches of 500", "memories/s", "report"),
    Figure("import", "import of short memories", "memories/s", "report"),
    Figure("disk", "bytes on disk of a 60-word memory, large", "bytes", "fact", at_most=2_200, from_memories=1_000),
    Figure("load_ops", "16 clients, half store half recall", "ops/s", "time", at_least=35),
    Figure("load_store_p95", "- slowest 5 % of stores begin at", "s", "time", at_most=1.5),
    Figure("load_errors", "- errors", "", "fact", at_most=0),
    Figure("share_ops", "4 processes on one file, mixed", "ops/s", "report"),
    Figure("share_locked", '- answers "locked" and other errors', "", "fact", at_most=0),
    Figure("share_lost", "- acknowledged writes lost", "", "fact", at_most=0),
    Figure("crowd_writes", "4 processes on scale passages, 30 % writes", "writes/s", "time", at_least=150),
    Figure("crowd_locked", '- answers "locked" and other errors', "", "fact", at_most=0),
    Figure("crowd_unseen", "writes by another process that the next query misses", "of 50", "fact", at_most=0),
    Figure("kill_disagree", "kill -9 of writers: rows that disagree", "", "fact", at_most=0),
    Figure("kill_lost", "- acknowledged writes lost", "", "fact", at_most=0),
    Figure("help", "retain --help", "CPU s", "time", at_most=0.35),
    Figure("mcp", "stdio MCP, start to initialize answered", "CPU s", "time", at_most=2.8),
    Figure("mcp_bytes", "MCP tools/list", "bytes", "fact", at_most=12_000),
    Figure("mcp_tools", "- tools", "", "fact", at_most=10),
    Figure("packages_base", "packages: base", "", "fact", at_most=42),
    Figure("megabytes_base", "- size, model included", "MB", "fact", at_most=285),
    Figure("packages_server", "packages: with [server]", "", "fact", at_most=66),
    Figure("megabytes_server", "- size, model included", "MB", "fact", at_most=335),
    Figure("dense", "dense candidates, k = 10, large", "CPU ms", "report"),
    Figure("vec0", "baseline: vec0 float32 scan, k = 10", "CPU ms", "report"),
    Figure("keywords", "keyword candidates, k = 10, large", "CPU ms", "report"),
    Figure("fts5", "baseline: FTS5, all terms OR, bm25", "CPU ms", "report"),
    Figure("scale_load", "first recall, scale passages", "CPU s", "report"),
    Figure("scale_hybrid", "recall in process without query embedding, scale", "CPU ms", "time", at_most=10),
    Figure("scale_tag1", "- with a tag that 1 % carry", "CPU ms", "report"),
    Figure("scale_tag10", "- with a tag that 10 % carry", "CPU ms", "report"),
    Figure("scale_dense", "dense candidates, k = 10, scale", "CPU ms", "time", at_most=5),
    Figure("scale_floor", "floor: reading the codes once", "ms", "report"),
    Figure("scale_vec0", "baseline: vec0 float32 scan, k = 10", "CPU ms", "report"),
    Figure("scale_keywords", "keyword candidates, k = 10, scale", "CPU ms", "report"),
    Figure("scale_keywords_p95", "- slowest 5 % begin at", "ms", "report"),
    Figure("scale_fts5", "baseline: FTS5, all terms OR, bm25", "CPU ms", "report"),
    Figure("scale_recall", "recall@10 against the exact scan, real vectors, scale", "share", "fact", at_least=0.99),
    Figure("scale_recall_float", "- against the model's own float32 vectors", "share", "report"),
    Figure("scale_list_front", "a page of 50, the newest, scale", "CPU ms", "time", at_most=1),
    Figure("scale_list_middle", "- in the middle", "CPU ms", "time", at_most=1),
    Figure("scale_list_end", "- at the end", "CPU ms", "time", at_most=1),
    Figure("scale_bytes", "memory of the index, a passage, scale", "bytes", "fact", at_most=80, from_memories=5_000),
    Figure("huge_load", "first recall, huge passages", "CPU s", "report"),
    Figure("huge_hybrid", "recall in process without query embedding, huge", "CPU ms", "time", at_most=35),
    Figure("huge_tag1", "- with a tag that 1 % carry", "CPU ms", "report"),
    Figure("huge_tag10", "- with a tag that 10 % carry", "CPU ms", "report"),
    Figure("huge_dense", "dense candidates, k = 10, huge", "CPU ms", "time", at_most=20),
    Figure("huge_keywords", "keyword candidates, 8 to 15 words, k = 10, huge", "CPU ms", "report"),
    Figure("huge_keywords_p95", "- slowest 5 % begin at", "ms", "time", at_most=60),
    Figure("huge_fts5", "baseline: FTS5, all terms OR, bm25", "CPU ms", "report"),
    Figure("huge_recall", "recall@10 against the exact scan, synthetic, huge", "share", "fact", at_least=0.97),
    Figure("huge_list_front", "a page of 50, the newest, huge", "CPU ms", "time", at_most=1),
    Figure("huge_list_middle", "- in the middle", "CPU ms", "time", at_most=1),
    Figure("huge_list_end", "- at the end", "CPU ms", "time", at_most=1),
    Figure("huge_bytes", "memory of the index, a passage, huge", "bytes", "fact", at_most=80, from_memories=5_000),
    Figure("vec0_ratio", "vec0 scan : dense candidates", "times", "ratio", at_least=6, from_memories=10_000),
    Figure("fts5_ratio", "FTS5 : keyword candidates", "times", "ratio", at_least=12, from_memories=10_000),
    Figure("recall_growth", "recall, large : small", "times", "ratio", at_most=1.6),
    Figure("store_growth", "store, large : empty", "times", "ratio", at_most=1.5),
    Figure("rest_overhead", "recall, REST : in process", "times", "ratio", at_most=2),
    Figure("fill_ratio", "store_many : encoder alone", "share", "ratio", at_least=0.8),
    Figure("import_share", "bulk import : encoder alone", "share", "ratio", at_least=0.9, from_memories=10_000),
    Figure(
        "scale_vec0_ratio", "scale: vec0 scan : dense candidates", "times", "ratio", at_least=20, from_memories=100_000
    ),
    Figure(
        "scale_fts5_ratio", "scale: FTS5 : keyword candidates", "times", "ratio", at_least=40, from_memories=100_000
    ),
    Figure("scale_floor_ratio", "scale: dense candidates : floor", "times", "report"),
    Figure("scale_tag1_ratio", "scale: tag of 1 % : no filter", "times", "ratio", at_most=1.3, from_memories=5_000),
    Figure("scale_tag10_ratio", "scale: tag of 10 % : no filter", "times", "ratio", at_most=1.3, from_memories=5_000),
    Figure("scale_growth", "recall, scale : large", "times", "ratio", at_most=2.5, from_memories=100_000),
    Figure("scale_list_growth", "scale: page at the end : newest", "times", "ratio", at_most=1.5),
    Figure("huge_growth", "recall, huge : scale", "times", "ratio", at_most=11),
    Figure(
        "huge_fts5_ratio", "huge: FTS5 : keyword candidates", "times", "ratio", at_least=70, from_memories=1_000_000
    ),
    Figure("huge_list_growth", "huge: page at the end : newest", "times", "ratio", at_most=1.5),
)
