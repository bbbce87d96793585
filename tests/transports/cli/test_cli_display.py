"""Text for terminals: safe, and cut where a reader would cut."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from retain.transports.cli.display import clipped, graphemes, one_line, quoted_if_needed, visible
from retain.transports.cli.finding import size_text
from retain.transports.cli.memories import counted

FAMILY = "👩‍👩‍👧‍👦"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("evil\u202egpj.exe", "evil\\u202egpj.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\U000e0041", "\\U000e0041"),
        ("a\r\nb", "a\\x0d\nb"),
        ("half \ud83d", "half \\ud83d"),
        ("tab\tline\n", "tab\tline\n"),
        (f"{FAMILY} שלום ی\u200cن e\u0301 ❤\ufe0f", f"{FAMILY} שלום ی\u200cن e\u0301 ❤\ufe0f"),
    ],
)
def test_only_what_is_harmful_is_escaped(text: str, shown: str) -> None:  # C202
    assert visible(text) == shown


@given(st.text())
def test_nothing_harmful_is_ever_shown(text: str) -> None:
    left = [c for c in visible(text) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert set(left) <= set("\n\t\u200c\u200d\u00ad")


@given(st.text(alphabet=st.characters(categories=("L", "N", "P"))))
def test_ordinary_text_is_shown_unchanged(text: str) -> None:
    assert visible(text) == text


@given(st.text())
def test_graphemes_join_to_the_text(text: str) -> None:
    assert "".join(graphemes(text)) == text


@pytest.mark.parametrize("cluster", [FAMILY, "🇨🇭", "e\u0301", "👍🏽", "❤\ufe0f", "क्षि"[:2]])
def test_what_a_reader_sees_as_one_character_is_never_cut(cluster: str) -> None:  # C202
    text = f"ab{cluster}cd"
    assert list(graphemes(text)) == ["a", "b", cluster, "c", "d"]
    for cells in range(1, 8):
        kept = clipped(text, cells).removesuffix("…")
        assert kept in {"", "a", "ab", f"ab{cluster}", f"ab{cluster}c", text}


def test_flags_side_by_side_are_two() -> None:
    assert list(graphemes("🇨🇭🇩🇪")) == ["🇨🇭", "🇩🇪"]


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs", "Cf"))), st.integers(3, 40))
def test_a_preview_fits(text: str, cells: int) -> None:
    assert cell_len(clipped(text, cells, ellipsis="...")) <= cells


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


def test_names_with_blanks_are_quoted() -> None:
    assert (quoted_if_needed("c++"), quoted_if_needed("two words")) == ("c++", '"two words"')


def test_numbers_read_well() -> None:
    assert [counted(n, "memory", "memories") for n in (0, 1, 1200)] == ["0 memories", "1 memory", "1,200 memories"]
    assert [size_text(n) for n in (12, 4096, 12_345_678, 3 * 10**9)] == ["12 bytes", "4.1 kB", "12.3 MB", "3.0 GB"]
