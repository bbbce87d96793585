"""What the bundled model can't read: other scripts, emoji and overlong words."""

import json
from itertools import combinations

import numpy as np
import pytest

from retain.core.service import MemoryService
from retain.embeddings import model_files
from retain.embeddings.onnx import OnnxEmbedder
from retain.embeddings.runtime import Tokens
from retain.embeddings.unread import Vocabulary, hashed

UNRELATED = {
    "emoji": ["🚀", "🎉🎉", "😀😂", "🐶🐱", "❤️"],
    "thai": ["แมวชอบปลา", "ฝนตกหนักวันนี้", "รถยนต์คันนี้ราคาแพง", "ฉันทำงานที่ธนาคาร"],
    "amharic": ["ድመቷ ዓሣ ትወዳለች", "ዛሬ ዝናብ ይዘንባል", "መኪናው ውድ ነው", "ባንክ ውስጥ እሰራለሁ"],
    "odia": ["ବିଲେଇ ମାଛ ଭଲ ପାଏ", "ଆଜି ବର୍ଷା ହେଉଛି", "କାର ମହଙ୍ଗା"],
    "hindi": ["बिल्ली को मछली पसंद है", "आज भारी बारिश हो रही है", "मैं बैंक में काम करता हूँ"],
    "korean": ["고양이는 생선을 좋아한다", "오늘은 비가 많이 온다", "이 자동차는 비싸다", "배포는 금요일에 끝난다"],
    "chinese": ["猫喜欢吃鱼", "今天下大雨", "这辆汽车很贵", "部署冻结在周五结束", "数据库在凌晨三点备份"],
    "japanese": [
        "猫は魚が好きです",
        "今日は大雨です",
        "この車は高いです",
        "部署の凍結は金曜日に終わります",
    ],
    "russian": ["кошка любит рыбу", "сегодня сильный дождь", "эта машина дорогая", "я работаю в банке"],
    "arabic": ["القطة تحب السمك", "اليوم تمطر بغزارة", "هذه السيارة غالية", "أعمل في البنك"],
    "greek": ["η γάτα αγαπά το ψάρι", "σήμερα βρέχει πολύ", "αυτό το αυτοκίνητο είναι ακριβό"],
    "hebrew": ["החתול אוהב דגים", "היום יורד גשם", "המכונית הזאת יקרה"],
}
ENGLISH = [
    "The deploy freeze ends on Friday",
    "Zoë’s café costs 5 € – naïve, isn't it?",
    "a decay of α at 5 μm and ΔT = 3 °C",
    "Straße, Łódź, co₂ and km²",
    "SELECT id FROM memories WHERE namespace = ?;",
]


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return Tokens(model_files.bundled_files().read("tokenizer.json"))


@pytest.mark.parametrize("language", UNRELATED)
async def test_unrelated_texts_that_the_model_can_t_read_are_far_apart(model: OnnxEmbedder, language: str) -> None:
    found = await model.embed_passages(UNRELATED[language])
    # Short Arabic words share their article.
    assert max(abs(float(a @ b)) for a, b in combinations(found, 2)) < (0.35 if language == "arabic" else 0.25)
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-5
    again = [await model.embed_query(text) for text in UNRELATED[language]]
    assert min(float(a @ b) for a, b in zip(found, again, strict=True)) > 0.9999


async def test_texts_of_different_scripts_are_far_apart(model: OnnxEmbedder) -> None:
    found = await model.embed_passages([texts[0] for texts in UNRELATED.values()] + ENGLISH[:1])
    assert max(abs(float(a @ b)) for a, b in combinations(found, 2)) < 0.25


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("部署冻结在周五结束", "部署冻结在周四结束"),
        ("แมวชอบปลา", "แมวกินปลา"),
        ("ዛሬ ዝናብ ይዘንባል", "ነገ ዝናብ ይዘንባል"),
        ("кошка любит рыбу", "кошки любят рыбу"),
    ],
)
async def test_texts_that_share_words_are_near_even_when_unread(model: OnnxEmbedder, one: str, other: str) -> None:
    a, b = await model.embed_passages([one, other])
    assert 0.35 < float(a @ b) < 0.95


@pytest.mark.parametrize("text", ENGLISH)
async def test_what_the_model_reads_is_embedded_as_before(model: OnnxEmbedder, tokens: Tokens, text: str) -> None:
    reading = tokens.read(text)
    assert (reading.ids, reading.pieces) == (tokens.ids(text), frozenset())


async def test_emoji_leave_the_vector_of_the_words_beside_them(model: OnnxEmbedder) -> None:
    plain, more, inside = await model.embed_passages(["ship it!!!", "🚀🔥 ship it!!! 🎉", "ship 🚀 it!!!"])
    assert plain @ more > 0.9999
    assert plain @ inside > 0.9999


async def test_words_of_two_scripts_both_count_by_their_letters(model: OnnxEmbedder) -> None:
    english, russian, both = await model.embed_passages(
        ["The deploy freeze ends on Friday", "в пятницу", "The deploy freeze ends on Friday в пятницу"]
    )
    assert 0.8 < english @ both < 0.95
    assert 0.35 < russian @ both < 0.6


async def test_an_overlong_word_counts_as_one_word(model: OnnxEmbedder) -> None:
    key = "0f" * 100
    plain, one, other = await model.embed_passages(
        ["The signing key of the release job", f"The signing key of the release job {key}", "f0" * 100]
    )
    assert 0.85 < plain @ one < 0.999
    assert abs(float(other @ plain)) < 0.25


async def test_unread_text_has_one_vector_whatever_batch_it_is_in(model: OnnxEmbedder) -> None:
    texts = [text for several in UNRELATED.values() for text in several] + ENGLISH
    together = await model._embed_passages(texts * 4)  # past those that are remembered
    alone = np.concatenate([await model._embed_passages([text]) for text in texts])
    assert np.sum(together * np.tile(alone, (4, 1)), axis=1).min() >= 0.9999


def test_hashed_pieces_are_the_same_everywhere() -> None:
    row = hashed(["แมว", "мир"], 384)
    assert np.flatnonzero(row)[:6].tolist() == [0, 2, 4, 8, 11, 14]
    assert row.dtype == np.float32
    assert abs(np.linalg.norm(hashed(["a"], 3)) - 1) < 1e-6


def test_a_vocabulary_with_words_of_a_script_reads_it() -> None:
    words = [a + b for a in "абвгдежзик" for b in "абвгдежзик"]
    raw = json.dumps({"model": {"type": "WordPiece", "vocab": dict.fromkeys(words, 1)}})
    few = '{"model": {"type": "WordPiece", "vocab": {"а": 1, "##б": 1}}}'
    pieces = ([5, 6], [(0, 2), (2, 4)])
    assert Vocabulary(raw.encode(), 0).read("абвг", *pieces).ids == [5, 6]
    assert Vocabulary(few.encode(), 0).read("абвг", *pieces).ids == []
    assert Vocabulary(few.replace("WordPiece", "Unigram").encode(), 0).read("абвг", *pieces).ids == [5, 6]


async def test_a_thai_sentence_is_not_similar_to_emoji_and_is_found_by_itself(service: MemoryService) -> None:
    await service.store("🎉🎉")
    stored = await service.store("แมวชอบปลา")
    assert stored.similar_to == ()
    for mode in ("semantic", "hybrid"):
        hits = (await service.recall("แมวชอบปลา", mode=mode, min_score=0.15)).hits
        assert [hit.memory.content for hit in hits] == ["แมวชอบปลา"]
        assert hits[0].score > 0.9
    assert (await service.recall("🚀", mode="semantic", min_score=0.15)).hits == ()
