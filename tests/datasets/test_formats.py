"""Rows come out of every format with their places, and damage is told from content."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.inspected import counts, inspected, jsonl, lines, measured
from trainproof.datasets import json_document, rows
from trainproof.datasets.sources import Form, Source, read, sources
from trainproof.model.data import FaultCode
from trainproof.model.dataset import Dataset, Issue, Shape
from trainproof.model.inspection import DatasetRequest
from trainproof.model.progress import Amount

ROWS: list[dict[str, Any]] = [{"text": "one"}, {"text": "two"}, {"text": "three"}]


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_lines_that_are_no_records_are_told_apart_by_what_they_are(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "a.jsonl",
        {"text": "one"},
        '{"text": "cut',
        "",
        "[1, 2]",
        "17",
        "null",
        b'{"text": "\xff"}',
        '{"text": "two"}, ',
    )
    found = measured(path)
    assert (found.rows, found.unusable, found.seen) == (1, 6, 7)
    assert counts(found) == {"syntax": 2, "not-object": 3, "encoding": 1}
    assert lines(found, Issue.SYNTAX) == [2, 8]
    assert lines(found, Issue.NOT_OBJECT) == [4, 5, 6]
    assert lines(found, Issue.ENCODING) == [7]


def test_what_only_lenient_parsers_take_is_read_and_told(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "a.jsonl",
        '{"text": "one", "score": NaN}',
        '{"text": "half \\ud83d"}',
        '{"text": "whole \\ud83d\\ude00", "n": 123456789012345678901234567890}',
    )
    found = measured(path)
    assert found.rows == 3
    assert counts(found) == {"not-a-number": 1, "surrogate": 1}
    assert lines(found, Issue.SURROGATE) == [2]


def test_whole_numbers_may_have_more_digits_than_python_converts(tmp_path: Path) -> None:
    row = '{"text": "one", "n": ' + "9" * 10_000 + "}"
    assert counts(measured(write(tmp_path / "a.jsonl", row))) == {}
    assert counts(measured(write(tmp_path / "a.json", f"[{row}]"))) == {}


def test_an_object_that_is_no_list_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_document, "MAX_LINE", 1000)
    path = write(tmp_path / "a.json", json.dumps({str(n): "v" * 90 for n in range(20)}))
    found = inspected(path)
    assert isinstance(found.subject, Dataset)
    assert (found.subject.unusable, counts(found.subject)) == (1, {"too-long": 1})


def test_deep_nesting_is_a_count_and_no_crash(tmp_path: Path) -> None:
    deep = '{"text": ' + "[" * 100_000 + "]" * 100_000 + "}"
    found = measured(jsonl(tmp_path / "a.jsonl", deep, {"text": "one"}))
    assert counts(found) == {"too-long": 1}


@pytest.mark.parametrize("length", [10, 11, 19, 20, 21, 95])
def test_a_line_beyond_the_limit_is_passed_over(length: int) -> None:
    stream = io.BytesIO(b"one\n" + b"x" * length + b"\ntwo")
    assert list(rows.lines(stream, 10)) == [(1, b"one\n"), (2, None), (3, b"two")]


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    found = measured(write(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"text": "one"}\n'))
    assert (found.rows, counts(found)) == (1, {})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps(ROWS), [1, 1, 1]),
        (json.dumps(ROWS, indent=1), [2, 5, 8]),
        (json.dumps({"version": 1, "data": ROWS}, indent=1), [4, 7, 10]),
        ("\n".join(json.dumps(row, indent=0) for row in ROWS), [1, 4, 7]),
    ],
)
def test_a_json_document_is_read_record_by_record(
    tmp_path: Path, content: str, expected: list[int]
) -> None:
    found = measured(write(tmp_path / "a.json", content))
    assert (found.rows, found.shapes) == (3, {Shape.TEXT: 3})
    empty = content.replace('"one"', '""').replace('"two"', '""').replace('"three"', '" "')
    spots = measured(write(tmp_path / "b.json", empty)).issues[Issue.EMPTY_TEXT].spots
    assert [spot.line for spot in spots] == expected


ARRAY = "[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n"


@pytest.mark.parametrize(
    ("content", "places"),
    [
        (json.dumps(ROWS), [1, 1, 1]),
        (ARRAY, [2, 3, 4]),
        ("\ufeff\n" + ARRAY, [3, 4, 5]),
        (json.dumps(ROWS, indent=2), [2, 5, 8]),
        ("\n".join(json.dumps(row, indent=2) for row in ROWS), [1, 4, 7]),
    ],
)
@pytest.mark.parametrize("end", ["jsonl", "ndjson", "jsonl.gz"])
def test_a_document_that_is_named_as_lines_is_read_as_what_it_is(
    tmp_path: Path, content: str, places: list[int], end: str
) -> None:
    data = content.replace('"one"', "null").replace('"two"', "null").replace('"three"', "null")
    packed = gzip.compress(data.encode()) if end.endswith("gz") else data.encode()
    found = measured(write(tmp_path / f"a.{end}", packed))
    assert (found.rows, found.unusable, found.documents.rows) == (3, 0, 1)
    assert lines(found, Issue.NULL_TEXT) == places
    assert found.lined.rows == 0


@pytest.mark.parametrize(
    "first",
    [
        '{"text": "cut',
        '{"text": "cut", ',
        "[1, 2]",
        "[]",
        "17",
        '{"text": "one"}',
    ],
)
def test_one_odd_first_line_makes_no_document_of_lines(tmp_path: Path, first: str) -> None:
    found = measured(jsonl(tmp_path / "a.jsonl", first, {"text": "two"}, {"text": "three"}))
    assert found.documents.rows == 0
    assert found.seen == 3


def test_lines_that_are_named_as_a_document_are_told(tmp_path: Path) -> None:
    for number in range(7):
        jsonl(tmp_path / "data" / f"{number}.json", *ROWS)
    write(tmp_path / "data" / "7.json", ARRAY)
    write(tmp_path / "data" / "8.json", json.dumps(ROWS[0]))
    found = measured(tmp_path / "data")
    assert (found.documents.rows, found.lined.rows) == (0, 7)
    assert [spot.artifact for spot in found.lined.spots] == [f"data/{n}.json" for n in range(5)]


def test_a_first_line_of_any_length_tells_lines_from_a_document(tmp_path: Path) -> None:
    row = {"text": "one", "steps": [{"text": "x" * 1000, "n": n} for n in range(300)]}
    found = measured(jsonl(tmp_path / "a.json", row, row | {"text": "two"}))
    assert (found.rows, found.lined.rows) == (2, 1)


def test_a_long_json_document_is_read_in_pieces(tmp_path: Path) -> None:
    many = [{"text": "é" * 3000, "n": number} for number in range(2000)]
    found = measured(write(tmp_path / "a.json", json.dumps(many, ensure_ascii=False)))
    assert (found.rows, found.characters) == (2000, 6_000_000)


def test_a_json_document_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    content = json.dumps(ROWS, indent=1)
    found = inspected(write(tmp_path / "a.json", content[: content.index("three")]))
    assert isinstance(found.subject, Dataset)
    assert (found.subject.rows, counts(found.subject)) == (2, {"syntax": 1})
    assert lines(found.subject, Issue.SYNTAX) == [8]
    (fault,) = found.faults
    assert (fault.code, fault.fatal, fault.line) == (FaultCode.CORRUPT, True, 8)


def test_a_file_named_json_that_holds_lines_is_read_as_lines(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.json", *ROWS, "{")
    assert lines(measured(path), Issue.SYNTAX) == [4]


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("b.csv", ";"), ("c.tsv", "\t")])
def test_tables_have_a_header_and_lines(tmp_path: Path, name: str, delimiter: str) -> None:
    content = 'text,label\none,0\n"two\nlines",1\n,0\nfour\nfive,1\n'
    found = measured(write(tmp_path / name, content.replace(",", delimiter)))
    assert (found.rows, found.unusable) == (4, 1)
    assert counts(found) == {"empty-text": 1, "arity": 1}
    assert lines(found, Issue.EMPTY_TEXT) == [5]
    assert lines(found, Issue.ARITY) == [6]


def test_lines_of_tables_may_end_with_carriage_returns_alone(tmp_path: Path) -> None:
    found = measured(write(tmp_path / "a.csv", 'text,label\rone,a\r"t\rwo",b\rthree\r'))
    assert (found.rows, counts(found)) == (2, {"arity": 1})
    assert lines(found, Issue.ARITY) == [5]


def test_plain_text_has_a_row_for_each_line_with_something_on_it(tmp_path: Path) -> None:
    found = measured(write(tmp_path / "a.txt", b"one\n\n  \ntwo\n\xff\n"))
    assert (found.rows, counts(found)) == (3, {"encoding": 1})
    assert lines(found, Issue.ENCODING) == [5]


def test_parquet_has_rows_and_no_lines(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").Table.from_pylist([*ROWS, {"text": ""}, {"text": None}])
    parquet.write_table(table, tmp_path / "a.parquet")
    found = measured(tmp_path / "a.parquet")
    assert (found.rows, counts(found)) == (5, {"empty-text": 1, "null-text": 1})
    (spot,) = found.issues[Issue.EMPTY_TEXT].spots
    assert (spot.line, str(spot)) == (None, "row 4")


def test_arrow_is_read_as_a_file_and_as_a_stream(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pylist(ROWS)
    for name, new in (("file.arrow", pa.ipc.new_file), ("stream.arrow", pa.ipc.new_stream)):
        with new(str(tmp_path / name), table.schema) as writer:
            writer.write_table(table)
        assert measured(tmp_path / name).rows == 3


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + bytes(200) + b"PAR1", b""])
def test_damaged_parquet_is_a_fault(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("pyarrow")
    found = inspected(write(tmp_path / "a.parquet", content))
    assert found.subject is None
    assert found.faults[0].code is FaultCode.CORRUPT


def test_compressed_files_are_read_and_cut_ones_are_told(tmp_path: Path) -> None:
    content = b"".join(b'{"text": "row %d"}\n' % number for number in range(5000))
    packed = gzip.compress(content)
    assert measured(write(tmp_path / "a.jsonl.gz", packed)).rows == 5000
    cut = inspected(write(tmp_path / "b.jsonl.gz", packed[: len(packed) // 2]))
    assert isinstance(cut.subject, Dataset)
    assert 0 < cut.subject.rows < 5000
    assert [fault.code for fault in cut.faults] == [FaultCode.TRUNCATED]


@pytest.mark.parametrize("name", ["a.json.gz", "a.gz", "a.jsonl.gz"])
def test_what_is_compressed_is_recognised_and_read_once(tmp_path: Path, name: str) -> None:
    content = "\n".join(json.dumps({"text": f"row {n}"}) for n in range(20_000)).encode()
    path = write(tmp_path / name, gzip.compress(content))
    (source,) = sources(str(tmp_path), name, DatasetRequest())
    assert isinstance(source, Source)
    forms: list[Form] = []
    assert sum(1 for _ in read(source, forms.append, lambda place: None)) == 20_000
    assert forms == [Form.JSON_LINES]
    assert measured(path).rows == 20_000


def test_a_directory_is_its_files_with_their_names(tmp_path: Path) -> None:
    jsonl(tmp_path / "data" / "a.jsonl", {"text": "one"})
    jsonl(tmp_path / "data" / "deep" / "b.jsonl", {"text": "two"}, {"text": ""})
    write(tmp_path / "data" / "dataset_info.json", "{}")
    write(tmp_path / "data" / "README.txt", "about\n")
    found = measured(tmp_path / "data")
    assert (found.rows, found.files) == (3, 2)
    (spot,) = found.issues[Issue.EMPTY_TEXT].spots
    assert (spot.artifact, spot.line) == ("data/deep/b.jsonl", 2)


def test_files_that_describe_others_are_no_rows(tmp_path: Path) -> None:
    jsonl(tmp_path / "data" / "a.jsonl", *ROWS)
    write(tmp_path / "data" / "stats.json", '{"mean": 3.5}')
    found = measured(tmp_path / "data")
    assert (found.rows, found.files, found.shapes) == (3, 1, {Shape.TEXT: 3})
    write(tmp_path / "alone" / "index.json", json.dumps(ROWS))
    assert measured(tmp_path / "alone").rows == 3


def test_the_caller_chooses_among_the_files_of_a_directory(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "old/c.jsonl"):
        jsonl(tmp_path / "data" / name, {"text": name})
    assert measured(tmp_path / "data", exclude=("old",)).rows == 2
    assert measured(tmp_path / "data", include=("b.*", "old")).rows == 2


def test_links_out_of_a_directory_are_followed_where_the_caller_says_so(tmp_path: Path) -> None:
    jsonl(tmp_path / "blobs" / "1", {"text": "one"})
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").symlink_to(tmp_path / "blobs" / "1")
    (fault,) = inspected(tmp_path / "data").faults
    assert fault.detail == "holds no file of a known format, and links that are not followed"
    assert measured(tmp_path / "data", follow_symlinks=True).rows == 1


@pytest.mark.parametrize("content", [b"", b"\n\n", b"[]"])
def test_nothing_is_no_dataset(tmp_path: Path, content: bytes) -> None:
    for name in ("a.jsonl", "a.json"):
        found = inspected(write(tmp_path / name, content))
        if found.subject is None:
            assert [fault.fatal for fault in found.faults] == [True]
        else:
            assert isinstance(found.subject, Dataset)
            assert found.subject.rows == 0


def test_what_is_not_there_is_a_fault(tmp_path: Path) -> None:
    found = inspected(tmp_path / "nowhere.jsonl")
    assert found.subject is None
    assert found.faults[0].detail == "No such file or directory"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("blank", [1, 2, 300_000])
def test_any_number_of_empty_lines_is_passed_over_and_counted(
    tmp_path: Path, blank: int, end: str
) -> None:
    row = json.dumps({"text": "one"}) + end
    path = write(tmp_path / "a.jsonl", end * blank + row + end * blank + " {" + end * blank)
    found = measured(path)
    assert (found.rows, found.unusable) == (1, 1)
    assert lines(found, Issue.SYNTAX) == [2 * blank + 2]
    text = write(tmp_path / "a.txt", f"{end * blank}one{end * blank} \x00{end}")
    assert lines(measured(text), Issue.NUL) == [2 * blank + 1]


def test_how_much_of_all_files_has_been_read_is_told_on_the_way(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": f"row {n} " + "word " * 50}) + "\n" for n in range(4000))
    write(tmp_path / "data" / "train" / "a.jsonl", rows)
    write(tmp_path / "data" / "train" / "b.jsonl.gz", gzip.compress(rows.encode()))
    write(tmp_path / "data" / "test" / "c.jsonl", "\n" * 1_000_000)
    total = sum(path.stat().st_size for path in (tmp_path / "data").rglob("*.*"))
    told: list[Amount] = []
    found = inspected(tmp_path / "data", lambda amount=None, /: told.append(amount or Amount()))
    assert isinstance(found.subject, Dataset)
    assert {amount.total for amount in told} == {total}
    assert told == sorted(told)
    assert told[-1].done == total
    assert 8000 - 64 <= told[-1].rows <= 8000
    assert sum(amount.done > total - 1_000_000 for amount in told) > 2  # also of empty lines


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.jsonl", b"version https://git-lfs.github.com/spec/v1\noid", "a Git LFS pointer: git"),
        ("a.parquet", b"version https://git-lfs.github.com/spec/v1\noid", "a Git LFS pointer: git"),
        ("a.jsonl", b"PK\x03\x04\x14\x00", "a ZIP archive: what is in it can be read once"),
        ("a.txt", b"version https://git-lfs.github.com/spec/v1\noid", "a Git LFS pointer: git"),
        ("a.jsonl", b"<!DOCTYPE html><html>404</html>", "a page of HTML or XML, and no rows: "),
        ("a.csv", b"\xef\xbb\xbf\n <html>\n", "a page of HTML or XML, and no rows: "),
        ("a.parquet", b'<?xml version="1.0"?><Error/>', "a page of HTML or XML, and no rows: "),
        ("a.jsonl", '{"text": "one"}\n'.encode("utf-16"), "UTF-16: loaders read UTF-8, which"),
        ("a.csv", "\ufefftext\none\n".encode("utf-16-be"), "UTF-16: loaders read UTF-8, which"),
        (
            "a.csv.gz",
            gzip.compress("text\none\n".encode("utf-16"), mtime=0),
            "UTF-16: loaders read UTF-8,",
        ),
    ],
)
def test_what_lies_in_the_place_of_rows_is_named(
    tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    found = inspected(write(tmp_path / name, content))
    (fault,) = found.faults
    assert found.subject is None
    assert fault.detail.startswith(told)
    assert (fault.code, fault.fatal, fault.artifact) == (FaultCode.CORRUPT, True, name)


def test_pages_may_be_what_a_text_is_of(tmp_path: Path) -> None:
    assert measured(write(tmp_path / "a.txt", "<!DOCTYPE html>\n<p>one</p>\n")).rows == 2


def test_an_object_of_lists_holds_columns(tmp_path: Path) -> None:
    columns = {"text": ["one", "two", "three"], "label": [0, 1, 0]}
    found = measured(write(tmp_path / "a.json", json.dumps(columns)))
    assert (found.rows, found.shapes) == (3, {Shape.TEXT: 3})
    assert found.fields[0].first["string"].line is None
    for record in ({"tokens": ["a", "b"], "tags": [0, 1]}, {"text": ["a"], "n": [1]}):
        assert measured(write(tmp_path / "b.json", json.dumps(record))).rows == 1
    several = json.dumps(columns, indent=1) + json.dumps(columns, indent=1)
    assert measured(write(tmp_path / "c.json", several)).rows == 2


@pytest.mark.parametrize(
    "table",
    [
        {"text": {"0": "one", "1": "two"}, "label": {"0": 0, "1": 1}},
        {"0": {"text": "one"}, "1": {"text": "two"}},
        {"columns": ["text"], "index": [0, 1], "data": [["one"], ["two"]]},
    ],
)
def test_a_table_that_is_keyed_by_numbers_is_named(tmp_path: Path, table: object) -> None:
    found = inspected(write(tmp_path / "a.json", json.dumps(table)))
    (fault,) = found.faults
    assert found.subject is None
    assert fault.detail.startswith("a table by number of row or column, as to_json of pandas")


def test_a_record_of_two_objects_is_no_table(tmp_path: Path) -> None:
    pair = {name: {"role": "assistant", "content": name} for name in ("chosen", "rejected")}
    assert measured(write(tmp_path / "a.json", json.dumps(pair))).shapes == {Shape.PREFERENCE: 1}


@pytest.mark.parametrize(
    ("rows", "odd"),
    [
        ('1,"one, ""two"""\n2,"three\nfour"\n3,it\'s 5" wide\n', []),
        ('1,"one\n2,"two"\n3,three\n', [2]),
        ('1,"one" two\n2,two\n', [2]),
        ('1,one\n2,"two\n', [3]),
    ],
)
def test_quotation_marks_that_do_not_pair_are_told(
    tmp_path: Path, rows: str, odd: list[int]
) -> None:
    found = measured(write(tmp_path / "a.csv", f"id,text\n{rows}"))
    assert counts(found) == ({"quotes": 1} if odd else {})
    assert not odd or lines(found, Issue.QUOTES) == odd
