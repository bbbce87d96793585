import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain_evals.intervals import difference, means, sign_test


def test_a_mean_lies_in_its_interval_and_the_interval_in_the_range_of_the_values():
    values = np.random.default_rng(1).random((60, 3))
    for column, mean in zip(values.T, means(values), strict=True):
        assert mean.value == pytest.approx(column.mean())
        assert column.min() < mean.low < mean.value < mean.high < column.max()
        assert mean.n == 60


def test_an_interval_has_the_width_that_theory_gives():
    values = (np.arange(400) < 300).astype(float)[:, np.newaxis]
    (mean,) = means(values)
    half = 1.96 * (0.75 * 0.25 / 400) ** 0.5
    assert (mean.low, mean.high) == (pytest.approx(0.75 - half, abs=0.01), pytest.approx(0.75 + half, abs=0.01))


def test_an_interval_holds_the_truth_in_about_95_of_100_draws():
    random = np.random.default_rng(7)
    held = sum(mean.low <= 0.8 <= mean.high for mean in means((random.random((250, 300)) < 0.8).astype(float)))
    assert 270 <= held <= 297


def test_the_same_values_give_the_same_interval():
    values = np.random.default_rng(2).random((30, 1))
    assert means(values) == means(values)


def test_a_mean_over_one_question_is_certain_only_of_itself():
    (mean,) = means(np.array([[0.5]]))
    assert (mean.value, mean.low, mean.high, mean.n) == (0.5, 0.5, 0.5, 1)


@given(st.integers(0, 12), st.integers(0, 12))
def test_the_sign_test_is_what_listing_all_outcomes_gives(better: int, worse: int):
    n = better + worse
    if n > 12:
        return
    as_uneven = [
        outcome for outcome in itertools.product((0, 1), repeat=n) if abs(2 * sum(outcome) - n) >= abs(better - worse)
    ]
    assert sign_test(better, worse) == pytest.approx(len(as_uneven) / 2**n)


def test_a_difference_that_only_a_few_questions_make_is_noise():
    found = difference([0.0] * 3 + [1.0] * 97, [1.0] * 3 + [1.0] * 97)
    assert (found.better, found.worse, found.p) == (3, 0, 0.25)
    assert found.mean.value == pytest.approx(0.03)
    assert not found.is_more_than_noise


def test_a_difference_that_many_questions_make_is_more_than_noise():
    found = difference([0.0] * 20 + [1.0] * 80, [1.0] * 18 + [0.0] * 2 + [1.0] * 79 + [0.0])
    assert (found.better, found.worse) == (18, 1)
    assert found.is_more_than_noise


def test_equal_runs_do_not_differ():
    found = difference([1.0, 0.0, 0.5], [1.0, 0.0, 0.5])
    assert (found.mean.low, found.mean.value, found.mean.high, found.p) == (0, 0, 0, 1)
    assert not found.is_more_than_noise
