"""Manifests as corpora have them. No audio is opened here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainproof.speech.rows import MAX_LINE, Bad, Item, Row, rows


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def read(root: Path, name: str = "") -> list[Item]:
    return list(rows(root / name, root))


def told(root: Path, name: str = "") -> list[tuple[str, str | None]]:
    """Audio relative to the root, and text, of each row."""
    found = []
    for item in read(root, name):
        assert isinstance(item, Row), item
        assert item.audio is not None
        found.append((item.audio.relative_to(root).as_posix(), item.text))
    return found


def test_ljspeech_by_its_normalised_text(tmp_path: Path) -> None:
    text = "LJ001-0001|In 1 word|In one word\nLJ001-0002|plain\nLJ001.3|only raw|\n"
    write(tmp_path, {"metadata.csv": text})
    expected = [
        ("wavs/LJ001-0001.wav", "In one word"),
        ("wavs/LJ001-0002.wav", "plain"),
        ("wavs/LJ001.3.wav", "only raw"),
    ]
    assert told(tmp_path) == told(tmp_path, "metadata.csv") == expected
    lines = [(row.artifact, row.line) for row in read(tmp_path) if isinstance(row, Row)]
    assert lines == [("metadata.csv", 1), ("metadata.csv", 2), ("metadata.csv", 3)]


def test_an_id_is_looked_up_where_it_is(tmp_path: Path) -> None:
    write(tmp_path, {"metadata.csv": "a|x\nb|y\n", "wavs/a.flac": "", "b.wav": ""})
    assert told(tmp_path) == [("wavs/a.flac", "x"), ("b.wav", "y")]


def test_lists_of_vits_with_speakers(tmp_path: Path) -> None:
    write(tmp_path, {"train.txt": "data/p1/a.wav|12|hello there\ndata/b.wav|yes\nc.wav|3|\n"})
    assert told(tmp_path, "train.txt") == [
        ("data/p1/a.wav", "hello there"),
        ("data/b.wav", "yes"),
        ("c.wav", ""),
    ]


def test_a_list_of_a_directory_is_found_by_the_audio_it_names(tmp_path: Path) -> None:
    write(tmp_path, {"train.txt": "w/a.wav|12|hello\n", "about.txt": "this|that\n", "w/a.wav": ""})
    assert told(tmp_path) == [("w/a.wav", "hello")]


def test_each_directory_below_may_have_a_manifest(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "train/metadata.csv": "file_name,transcription\na.flac,one\nin/b.flac,two\n",
            "train/a.flac": "",
            "train/in/b.flac": "",
            "test/metadata.jsonl": '{"file_name": "c.flac", "text": "three"}\n',
            "test/c.flac": "",
            "more/d.flac": "",
            "more/d.txt": "four",
            "data/dev/wav.scp": "u1 e.wav\n",
            "data/dev/text": "u1 five\n",
        },
    )
    assert sorted(told(tmp_path)) == [
        ("data/dev/e.wav", "five"),
        ("more/d.flac", "four"),
        ("test/c.flac", "three"),
        ("train/a.flac", "one"),
        ("train/in/b.flac", "two"),
    ]


def test_json_lines_of_nemo_and_of_others(tmp_path: Path) -> None:
    lines = [
        {"audio_filepath": "a.wav", "text": "one", "duration": 1.5},
        {"audio": {"path": "b.wav", "bytes": None}, "sentence": "two"},
        {"file_name": "c.wav", "transcription": "three", "duration": "long"},
        {"wav": "d.wav"},
    ]
    write(tmp_path, {"train.jsonl": "".join(json.dumps(line) + "\n" for line in lines)})
    assert told(tmp_path) == [
        ("a.wav", "one"),
        ("b.wav", "two"),
        ("c.wav", "three"),
        ("d.wav", None),
    ]
    seconds = [row.seconds for row in read(tmp_path) if isinstance(row, Row)]
    assert seconds == [1.5, None, None, None]


def test_tables_of_common_voice(tmp_path: Path) -> None:
    text = 'client_id\tpath\tsentence\tage\nx\ta.mp3\tShe said "no.\t\ny\tb.mp3\tYes, two\t\n'
    write(tmp_path, {"train.tsv": text, "clips/a.mp3": "", "clips/b.mp3": ""})
    assert told(tmp_path) == [("clips/a.mp3", 'She said "no.'), ("clips/b.mp3", "Yes, two")]
    assert [row.line for row in read(tmp_path) if isinstance(row, Row)] == [2, 3]


def test_tables_with_quotes(tmp_path: Path) -> None:
    text = '\ufefffile_name,transcription\na.wav,"yes, ""two"""\n'
    write(tmp_path, {"metadata.csv": text})
    assert told(tmp_path) == [("a.wav", 'yes, "two"')]


def test_kaldi_without_segments(tmp_path: Path) -> None:
    scp = "u1 a.wav\nu2 sph2pipe -f wav b.sph |\nu3 feats.ark:1234\nu4 d.wav\n"
    write(tmp_path, {"wav.scp": scp, "text": "u1 one two\nu2 three\nu3 x\n"})
    found = [row for row in read(tmp_path) if isinstance(row, Row)]
    assert [row.text for row in found] == ["one two", "three", "x", ""]
    assert [row.audio and row.audio.name for row in found] == ["a.wav", None, None, "d.wav"]


def test_kaldi_with_segments(tmp_path: Path) -> None:
    segments = "u1 r1 0.0 1.5\nu2 r1 1.5 4.0\nu3 r1 soon later\n"
    write(tmp_path, {"wav.scp": "r1 a.wav\n", "segments": segments, "text": "u1 one\nu2 two\n"})
    first, second, third = read(tmp_path)
    assert isinstance(first, Row) and isinstance(second, Row)
    assert (first.seconds, first.part, first.text) == (1.5, True, "one")
    assert (second.seconds, second.artifact, second.line) == (2.5, "segments", 2)
    assert third == Bad("segments", 3, "no start and end after the recording")


def test_audio_with_transcripts_beside_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "s1/a.wav": "",
            "s1/a.txt": "one",
            "s1/b.flac": "",
            "s1/b.lab": "two",
            "s1/c.wav": "",
            ".cache/d.wav": "",
            "notes.txt": "not of any",
        },
    )
    assert told(tmp_path) == [("s1/a.wav", "one"), ("s1/b.flac", "two"), ("s1/c.wav", None)]


def test_parallel_directories_of_vctk(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "wav48/p225/p225_001_mic1.flac": "",
            "txt/p225/p225_001.txt": "Please call Stella.",
        },
    )
    assert told(tmp_path) == [("wav48/p225/p225_001_mic1.flac", "Please call Stella.")]


def test_librispeech(tmp_path: Path) -> None:
    write(tmp_path, {"1/2/1-2-0000.flac": "", "1/2/1-2.trans.txt": "1-2-0000 CHAPTER ONE\n"})
    assert told(tmp_path) == [("1/2/1-2-0000.flac", "CHAPTER ONE")]


def test_one_audio_file_is_a_corpus_of_one(tmp_path: Path) -> None:
    write(tmp_path, {"a.wav": "", "a.txt": "one"})
    assert told(tmp_path, "a.wav") == [("a.wav", "one")]


def test_several_manifests_of_a_directory_are_read_and_others_are_not(tmp_path: Path) -> None:
    row = '{"audio_filepath": "a.wav", "text": "x"}\n'
    write(
        tmp_path,
        {"train.jsonl": row, "valid.jsonl": row, "log.jsonl": '{"step": 1}\n', "x.csv": "a,b\n"},
    )
    artifacts = [row.artifact for row in read(tmp_path) if isinstance(row, Row)]
    assert artifacts == ["train.jsonl", "valid.jsonl"]


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("{broken", "not JSON"),
        ('{"text": "no audio"}', "none of the keys"),
        ("[1, 2]", "neither JSON nor id|text"),
        ("|text without an id", "no id before"),
        ("[" * 100_000, "neither JSON"),
        ('{"a":' * 100_000, "not JSON"),
    ],
)
def test_a_line_that_is_no_row_is_told_with_its_number(
    tmp_path: Path, line: str, detail: str
) -> None:
    write(tmp_path, {"m.jsonl": f'{{"audio": "a.wav", "text": "x"}}\n\n{line}\n'})
    first, second = read(tmp_path, "m.jsonl")
    assert isinstance(first, Row)
    assert isinstance(second, Bad)
    assert (second.line, detail in second.detail) == (3, True)


def test_a_short_row_of_a_table_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"train.tsv": "path\tsentence\na.mp3\n\tx\n"})
    assert [item.detail for item in read(tmp_path) if isinstance(item, Bad)] == [
        "1 cells, fewer than the header has",
        "no name of a file",
    ]


def test_a_line_without_an_end_is_not_kept(tmp_path: Path) -> None:
    long = '{"audio": "' + "x" * (3 * MAX_LINE) + '"}'
    write(tmp_path, {"m.jsonl": f'{{"audio": "a.wav"}}\n{long}\n{{"audio": "b.wav"}}\n'})
    first, second, third = read(tmp_path)
    assert isinstance(first, Row) and isinstance(third, Row)
    assert isinstance(second, Bad)
    assert (second.line, third.line) == (2, 3)


def test_names_that_are_no_names_harm_nothing(tmp_path: Path) -> None:
    names = ["a\0b.wav", "../../etc/passwd", "/dev/zero", "x" * 5000 + ".wav", "\ud800.wav"]
    text = "".join(json.dumps({"audio": name, "text": "x"}) + "\n" for name in names)
    write(tmp_path, {"m.jsonl": text})
    assert len(read(tmp_path)) == len(names)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("data/train/wav.scp", "u1 downloads/a.wav\n"),
        ("filelists/train.txt", "downloads/a.wav|one\n"),
        ("train.jsonl", '{"audio_filepath": "downloads/a.wav", "text": "one"}\n'),
    ],
)
def test_files_are_named_from_where_a_recipe_is_started(
    tmp_path: Path, name: str, line: str
) -> None:
    write(tmp_path, {name: line, "downloads/a.wav": ""})
    (row,) = read(tmp_path, name)
    assert isinstance(row, Row)
    assert row.audio == tmp_path / "downloads" / "a.wav"
    (tmp_path / "downloads" / "a.wav").unlink()
    (row,) = read(tmp_path, name)
    assert isinstance(row, Row)
    assert row.audio == (tmp_path / name).parent / "downloads" / "a.wav"
