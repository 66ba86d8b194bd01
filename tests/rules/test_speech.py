"""Rules about corpora: limits, levels and what must not be told."""

from __future__ import annotations

import numpy as np
import pytest

from trainproof.engine.evaluate import evaluate
from trainproof.model.data import RunView
from trainproof.model.outcome import Cell, Level, Skip, State
from trainproof.model.rule import render
from trainproof.model.speech import Corpus, Spot, Spots, Spread
from trainproof.rules import REGISTRY


def spread(*values: float) -> Spread:
    spots = [Spot("m", number, f"{number}.wav", value) for number, value in enumerate(values, 1)]
    rising = sorted(spots, key=lambda spot: spot.value)
    return Spread(np.array(values), tuple(rising[:10]), tuple(rising[::-1][:10]))


def spots(count: int, detail: str = "") -> Spots:
    first = tuple(Spot("m", n, f"{n}.wav", 0.0, detail) for n in range(1, min(count, 10) + 1))
    return Spots(count, first)


def cell(id: str, corpus: Corpus, **thresholds: float) -> Cell:
    return evaluate(REGISTRY[id], RunView("corpus", inspected=corpus), thresholds)


def levels(id: str, **fields: object) -> list[Level] | Skip | None:
    one = cell(id, Corpus(**fields))  # type: ignore[arg-type]
    return one.skip if one.state is State.NOT_CHECKED else [hit.level for hit in one.hits]


RULES = [id for id, rule in REGISTRY.items() if rule.info.family == "speech"]


@pytest.mark.parametrize("id", RULES)
def test_an_empty_corpus_is_never_clean(id: str) -> None:
    assert cell(id, Corpus()).state is State.NOT_CHECKED


def test_no_audio_at_all_is_unreadable_and_a_missing_file_is_certain() -> None:
    assert levels("TP-DATA-MISSING-AUDIO", rows=3) is Skip.NEED_UNREADABLE
    assert levels("TP-DATA-MISSING-AUDIO", rows=3, missing=spots(3)) == [Level.FAIL]


def test_names_are_few_and_the_rest_is_counted() -> None:
    one = cell("TP-DATA-MISSING-AUDIO", Corpus(rows=2000, audio=1, missing=spots(1999)))
    (hit,) = one.hits
    prose = render(REGISTRY["TP-DATA-MISSING-AUDIO"].info, hit)
    assert prose.message.endswith(": 1.wav, 2.wav, 3.wav and 1,996 more.")


@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [
        ((3.0, 25.0, 0.5), [], []),
        ((3.0, 25.1), [Level.WARN], []),
        ((3.0, 0.49), [], [Level.WARN]),
        ((), Skip.NEED_ABSENT, Skip.NEED_ABSENT),
    ],
)
def test_limits_of_durations(seconds: tuple[float, ...], long: object, short: object) -> None:
    assert levels("TP-DATA-DURATION-LONG", durations=spread(*seconds)) == long
    assert levels("TP-DATA-DURATION-SHORT", durations=spread(*seconds)) == short


def test_more_rows_than_are_named_are_counted() -> None:
    (hit,) = cell("TP-DATA-DURATION-LONG", Corpus(durations=spread(*[60.0] * 30, 3.0))).hits
    assert (hit.evidence.measured["count"], hit.evidence.measured["files"]) == (30, 31)


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ([10.0] * 9, Skip.NEED_TOO_SHORT),
        ([10.0] * 10, []),
        ([10.0] * 10 + [30.0], []),
        ([10.0] * 10 + [30.1], [Level.WARN]),
        ([10.0] * 10 + [3.3], [Level.WARN]),
        ([10.0] * 10 + [3.4], []),
    ],
)
def test_limits_of_speed(speeds: list[float], expected: object) -> None:
    assert levels("TP-DATA-CHAR-RATE-OUTLIER", speed=spread(*speeds)) == expected


@pytest.mark.parametrize(("flat", "expected"), [(3, []), (4, [Level.WARN])])
def test_limits_of_flat_tops(flat: float, expected: object) -> None:
    assert levels("TP-DATA-CLIPPING", flats=spread(0, flat)) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(2.0, []), (2.1, [Level.WARN])])
def test_limits_of_silence(seconds: float, expected: object) -> None:
    assert levels("TP-DATA-SILENCE", silences=spread(0.1, seconds)) == expected


@pytest.mark.parametrize(("off", "expected"), [(0.1, []), (0.11, [Level.WARN])])
def test_limits_of_declared_durations(off: float, expected: object) -> None:
    assert levels("TP-DATA-DURATION-DECLARED", misdeclared=spread(0.0, off)) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1, [Level.INFO]), (2, [Level.WARN])])
def test_a_few_numbers_are_information(count: int, expected: object) -> None:
    fields = {"texts": 110, "empty": spots(10), "unnormalised": spots(count)}
    assert levels("TP-DATA-UNNORMALIZED", **fields) == expected


def test_different_words_in_different_alphabets_are_information() -> None:
    assert levels("TP-DATA-MIXED-SCRIPTS", texts=10, mixed_texts=spots(1)) == [Level.INFO]
    words = {"mixed_texts": spots(1), "mixed_words": spots(1, "word")}
    assert levels("TP-DATA-MIXED-SCRIPTS", texts=10, **words) == [Level.WARN]


def test_the_usual_value_is_that_of_most_files() -> None:
    corpus = Corpus(audio=5, rates={16000: 2, 22050: 3}, odd_rates=spots(2))
    (hit,) = cell("TP-DATA-INCONSISTENT-SR", corpus).hits
    assert hit.evidence.measured["usual"] == 22050
    assert hit.evidence.measured["others"] == "16,000 (2 files)"


def test_copies_outrank_rows_that_repeat() -> None:
    fields = {"audio": 5, "identical": spots(1, "a.wav"), "listed_twice": spots(2)}
    (hit,) = cell("TP-DATA-DUPLICATES", Corpus(**fields)).hits  # type: ignore[arg-type]
    assert (hit.evidence.variant, hit.evidence.measured["same"]) == ("", "a.wav")


def test_only_a_file_that_is_not_there_fails() -> None:
    assert [id for id in RULES if REGISTRY[id].info.level is Level.FAIL] == [
        "TP-DATA-MISSING-AUDIO"
    ]
