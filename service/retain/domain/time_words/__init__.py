"""English and ISO time expressions: names (data), phrases (what each means), expressions (the grammar)."""

from retain.domain.time_words.expressions import ExpressionReader

__all__ = ["ExpressionReader"]
