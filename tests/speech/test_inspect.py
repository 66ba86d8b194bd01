"""Corpora of real audio, measured and judged as ``trainproof data`` does it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.audio import tone, write_audio, write_wav
from tests.support.inspected import unheard
from trainproof import api
from trainproof.config import Config
from trainproof.model.artifact import Artifact, Kind, Run
from trainproof.model.data import Floats
from trainproof.model.inspection import Inspection, Requests
from trainproof.model.progress import Amount, Beat
from trainproof.model.report import ExitCode, Report, SubjectReport, Verdict, exit_code
from trainproof.model.rule import SubjectKind
from trainproof.model.speech import Corpus
from trainproof.speech import inspect

WORDS = "the quick brown fox jumps over it"
"""As fast as the median of every corpus here."""


def corpus(root: Path, rows: int = 12) -> Path:
    """A good corpus: different tones of two seconds, with a manifest."""
    lines = []
    for number in range(rows):
        write_wav(root / "wavs" / f"{number}.wav", tone(pitch=200.0 + number))
        lines.append({"audio_filepath": f"wavs/{number}.wav", "text": WORDS, "duration": 2.0})
    return manifest(root, *lines)


def manifest(root: Path, *lines: dict[str, object]) -> Path:
    path = root / "train.jsonl"
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def report(path: Path, *, isolation: bool = False) -> Report:
    config = Config(paths=(str(path),), isolation=isolation)
    return api.inspect(config, SubjectKind.SPEECH, Requests())


def judged(path: Path) -> SubjectReport:
    (subject,) = report(path).reports
    return subject


def fired(path: Path) -> dict[str, str]:
    return {finding.id: str(finding.level) for finding in judged(path).findings}


def inspected(path: Path, beat: Beat = unheard) -> Inspection:
    artifact = Artifact(str(path.parent), path.name, 0, Kind.SPEECH, "speech")
    run = Run(path.name, str(path.parent), (artifact,), SubjectKind.SPEECH)
    return inspect(run, Requests(), beat)


def measured(path: Path) -> Corpus:
    subject = inspected(path).subject
    assert isinstance(subject, Corpus)
    return subject


def test_a_good_corpus_passes(tmp_path: Path) -> None:
    corpus(tmp_path)
    found = report(tmp_path, isolation=True)
    assert (found.worst_verdict, exit_code(found)) == (Verdict.PASS, ExitCode.OK)
    (subject,) = found.reports
    assert (subject.kind, subject.findings, subject.problems) == ("speech", (), ())
    assert subject.measured is not None
    assert subject.measured["rows"] == 12
    assert subject.measured["hours"] == 0.007
    assert subject.measured["sample_rates"] == "16000 (12 files)"


def test_a_file_that_is_not_there_fails_at_its_line(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    manifest(tmp_path, {"audio_filepath": "wavs/no.wav", "text": WORDS})
    subject = judged(path)
    assert fired(path) == {"TP-DATA-MISSING-AUDIO": "FAIL"}
    (finding,) = subject.findings
    assert (finding.location.path, finding.location.line) == ("train.jsonl", 13)
    assert finding.measured["names"] == "wavs/no.wav"
    assert exit_code(report(path)) is ExitCode.FAIL


Waves = Callable[[], Floats]
FAULTS: dict[str, tuple[Waves, dict[str, object]]] = {
    "stereo": (lambda: np.stack([tone(), tone()], axis=1), {}),
    "long": (lambda: tone(26.0), {"text": " ".join([WORDS] * 13)}),
    "short": (lambda: tone(0.25), {"text": WORDS[:4]}),
    "declared": (tone, {"duration": 2.5}),
    "fast": (tone, {"text": WORDS * 4}),
    "clipped": (lambda: np.clip(tone(peak=2.0), -1, 1), {}),
    "silent": (lambda: np.concatenate([tone(1.0), np.zeros(34000)]), {}),
    "twice": (tone, {"audio_filepath": "wavs/3.wav"}),
    "empty text": (tone, {"text": " \t"}),
    "number": (tone, {"text": "the quick brown fox jumps 3 times"}),
    "alphabets": (tone, {"text": WORDS.replace("o", "\N{CYRILLIC SMALL LETTER O}")}),
    "rate": (tone, {}),
    "copy": (tone, {}),
    "cut": (tone, {}),
    "broken": (tone, {}),
}


def spoil(root: Path, name: str) -> None:
    """Add one row with one fault."""
    wave, changed = FAULTS[name]
    audio = write_wav(root / "wavs" / "odd.wav", wave(), 8000 if name == "rate" else 16000)
    whole = audio.read_bytes()
    spoiled = {
        "copy": (root / "wavs" / "3.wav").read_bytes(),
        "cut": whole[:-2000],
        "broken": b"RIFF nothing",
    }
    audio.write_bytes(spoiled.get(name, whole))
    manifest(root, {"audio_filepath": "wavs/odd.wav", "text": WORDS, **changed})


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("rate", "TP-DATA-INCONSISTENT-SR"),
        ("stereo", "TP-DATA-INCONSISTENT-CHANNELS"),
        ("long", "TP-DATA-DURATION-LONG"),
        ("short", "TP-DATA-DURATION-SHORT"),
        ("declared", "TP-DATA-DURATION-DECLARED"),
        ("fast", "TP-DATA-CHAR-RATE-OUTLIER"),
        ("clipped", "TP-DATA-CLIPPING"),
        ("silent", "TP-DATA-SILENCE"),
        ("copy", "TP-DATA-DUPLICATES"),
        ("twice", "TP-DATA-DUPLICATES"),
        ("cut", "TP-DATA-TRUNCATED-AUDIO"),
        ("broken", "TP-DATA-UNREADABLE-AUDIO"),
        ("empty text", "TP-DATA-EMPTY-TRANSCRIPT"),
        ("number", "TP-DATA-UNNORMALIZED"),
        ("alphabets", "TP-DATA-MIXED-SCRIPTS"),
    ],
)
def test_each_fault_alone_is_told_by_one_rule_at_its_line(
    tmp_path: Path, name: str, id: str
) -> None:
    path = corpus(tmp_path)
    spoil(tmp_path, name)
    subject = judged(path)
    assert [(one.id, str(one.level)) for one in subject.findings] == [(id, "WARN")]
    assert subject.findings[0].location.line == 13


def test_a_directory_of_audio_points_at_the_file(tmp_path: Path) -> None:
    for number in range(3):
        write_wav(tmp_path / "c" / f"{number}.wav", tone(pitch=200.0 + number))
        (tmp_path / "c" / f"{number}.txt").write_text(WORDS)
    write_wav(tmp_path / "c" / "3.wav", tone(30.0))
    subject = judged(tmp_path / "c")
    (finding,) = subject.findings
    assert finding.id == "TP-DATA-DURATION-LONG"
    assert (finding.location.path, finding.location.line) == ("c/3.wav", None)


def test_formats_may_be_mixed(tmp_path: Path) -> None:
    for number, suffix in enumerate(["wav", "flac", "ogg"]):
        write_audio(tmp_path / f"{number}.{suffix}", tone(pitch=200.0 + number))
    found = measured(tmp_path)
    assert (found.rows, found.audio, found.unread.count) == (3, 3, 0)


def test_a_corpus_without_transcripts_is_judged_by_its_audio(tmp_path: Path) -> None:
    for number in range(3):
        write_wav(tmp_path / f"{number}.wav", tone(pitch=200.0 + number))
    subject = judged(tmp_path)
    assert subject.verdict is Verdict.PASS
    assert subject.checks.details["TP-DATA-EMPTY-TRANSCRIPT"].skip == "need-absent"


def test_few_rows_have_no_median(tmp_path: Path) -> None:
    subject = judged(corpus(tmp_path, rows=5))
    assert subject.checks.details["TP-DATA-CHAR-RATE-OUTLIER"].skip == "need-too-short"


@pytest.mark.parametrize("name", ["nothing.jsonl", "directory"])
def test_where_there_is_no_corpus_nothing_is_judged(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir() if name == "directory" else path.write_text("neither\nnor\n")
    found = report(path)
    assert exit_code(found) is ExitCode.CANNOT_JUDGE
    (subject,) = found.reports
    assert subject.verdict is Verdict.NOT_CHECKED
    assert subject.findings == ()


def test_a_path_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    found = report(tmp_path / "nowhere")
    assert exit_code(found) is ExitCode.CANNOT_JUDGE
    assert [problem.path for problem in found.problems] == [str(tmp_path / "nowhere")]


def test_lines_that_are_no_rows_are_blemishes_with_their_lines(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    with path.open("a") as file:
        file.write("{broken\n" * 50)
    subject = judged(path)
    assert subject.verdict is Verdict.PASS
    assert len(subject.problems) == 21
    assert (subject.problems[0].line, subject.problems[0].fatal) == (13, False)
    assert subject.problems[-1].detail == "30 more lines like these"


def test_audio_that_nothing_could_read_is_exit_code_2(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x20ftypM4A ")
    manifest(tmp_path, {"audio_filepath": "a.m4a", "text": WORDS})
    found = report(path)
    assert exit_code(found) is ExitCode.CANNOT_JUDGE
    (problem,) = found.reports[0].problems
    assert problem.detail == "1 audio files were not read: no decoder for .m4a"


def test_commands_of_kaldi_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "wav.scp").write_text(f"u1 touch {tmp_path}/made |\n")
    (tmp_path / "text").write_text("u1 one\n")
    subject = judged(tmp_path)
    assert not (tmp_path / "made").exists()
    assert subject.verdict is Verdict.NOT_CHECKED


@pytest.mark.parametrize(
    "row",
    [
        {"audio_filepath": "s3://bucket/a.wav"},
        {"audio": {"path": "https://example.org/a.wav"}},
        {"audio_filepath": "a.wav", "shard_id": 0},
    ],
)
def test_audio_that_is_elsewhere_is_not_missing(tmp_path: Path, row: dict[str, object]) -> None:
    (tmp_path / "m.jsonl").write_text(json.dumps({**row, "text": "one"}) + "\n")
    subject = judged(tmp_path)
    assert subject.findings == ()
    assert subject.verdict is Verdict.NOT_CHECKED


def test_segments_of_one_recording_are_no_duplicates(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", tone(6.0))
    (tmp_path / "wav.scp").write_text("r1 a.wav\n")
    (tmp_path / "segments").write_text("u1 r1 0 2\nu2 r1 2 4\nu3 r1 4 6\n")
    (tmp_path / "text").write_text("u1 one\nu2 two\nu3 three\n")
    found = measured(tmp_path)
    assert found.durations.values.tolist() == [2.0, 2.0, 2.0]
    assert (found.audio, found.listed_twice.count, found.texts) == (1, 0, 3)


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/stdin", "x" * 5000 + ".wav"])
def test_a_name_that_leads_nowhere_good_is_never_opened(tmp_path: Path, name: str) -> None:
    path = corpus(tmp_path)
    manifest(tmp_path, {"audio_filepath": name, "text": WORDS})
    assert judged(path).verdict in (Verdict.FAIL, Verdict.WARN)


def test_a_pipe_is_never_opened(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    os.mkfifo(tmp_path / "wavs" / "p.wav")
    manifest(tmp_path, {"audio_filepath": "wavs/p.wav", "text": WORDS})
    assert fired(path) == {"TP-DATA-UNREADABLE-AUDIO": "WARN"}


def test_control_characters_drive_no_terminal(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    manifest(tmp_path, {"audio_filepath": "\x1b[31mred.wav", "text": WORDS})
    assert "\x1b" not in judged(path).findings[0].message


def test_the_deadline_is_renewed_and_memory_is_bounded(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    with path.open("a") as file:
        file.writelines(f'{{"audio_filepath": "no{n}.wav", "text": ""}}\n' for n in range(500))
    beats: list[Amount | None] = []
    subject = inspected(path, lambda amount=None, /: beats.append(amount)).subject
    assert isinstance(subject, Corpus)
    assert (subject.missing.count, len(subject.missing.first)) == (500, 10)
    assert len(beats) >= 500 // 64
    assert beats[1] == Amount(rows=64)
    size = sum(file.stat().st_size for file in tmp_path.rglob("*.wav"))
    assert (beats[-1] or Amount()).total == size


def test_a_file_of_broken_lines_renews_it_too(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("{\n" * 1000)
    beats: list[Amount | None] = []
    found = inspected(path, lambda amount=None, /: beats.append(amount))
    assert found.subject is None
    assert len(beats) >= 1000 // 64
    assert len(found.faults) == 22
    assert found.faults[-1].detail == "no row could be read"


def test_the_same_corpus_gives_the_same_report(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    for name in ("rate", "number"):
        spoil(tmp_path, name)
    one, two = judged(path), judged(path)
    assert one == two
