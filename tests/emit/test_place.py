"""A place is always a relative path that cannot leave the repository."""

from __future__ import annotations

import pytest

from tests.support.report import HOSTILE, report
from trainproof.emit.place import Place, place
from trainproof.model.report import Anchor


@pytest.mark.parametrize(
    ("root", "path", "shown"),
    [
        (".", "a/log.csv", "a/log.csv"),
        ("", "a/log.csv", "a/log.csv"),
        ("./runs/", "a/log.csv", "runs/a/log.csv"),
        ("runs//x/.", "./log.csv", "runs/x/log.csv"),
        ("runs/a/log.csv", "log.csv", "runs/a/log.csv"),
        ("log.csv", "log.csv", "log.csv"),
    ],
)
def test_below_the_working_directory_it_is_the_file_itself(
    root: str, path: str, shown: str
) -> None:
    assert place(report(), root, path, 7) == Place(shown, 7, True)


@pytest.mark.parametrize(
    "root", ["/data/runs", "s3://bucket/runs", "../runs", "a/../../b", "~/runs", "C:/runs"]
)
def test_elsewhere_it_is_a_stable_name_and_not_the_file(root: str) -> None:
    assert place(report(), root, "a/log.csv", 7) == Place("a/log.csv", 7, False)


def test_an_anchor_stands_for_its_root() -> None:
    made = report(anchors={"s3://bucket/runs": Anchor("ci/audit.toml", 12)})
    assert place(made, "s3://bucket/runs", "a/log.csv", 7) == Place("ci/audit.toml", 12, False)


@pytest.mark.parametrize("root", ["out/runs.zip", "out/runs.tar.gz", "out/RUNS.TGZ"])
def test_what_is_in_an_archive_is_shown_at_the_archive(root: str) -> None:
    assert place(report(), root, "a/log.csv", 7) == Place(root, None, False)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b/100%#?.csv", "a%20b/100%25%23%3F.csv"),
        ("c:d.csv", "c%3Ad.csv"),
        ("漢.csv", "%E6%BC%A2.csv"),
        ("bad\udcff.csv", "bad%5Cxff.csv"),
    ],
)
def test_uris_are_percent_encoded(path: str, uri: str) -> None:
    assert place(report(), ".", path).uri == uri


@pytest.mark.parametrize("root", [*HOSTILE, ".", "/", "//host", "a://"])
@pytest.mark.parametrize("path", [*HOSTILE, "", ".", "..", "../../etc/passwd", "/etc/passwd"])
def test_no_name_leads_out_of_the_repository(root: str, path: str) -> None:
    uri = place(report(), root, path).uri
    assert uri.isascii()
    assert not uri.startswith("/")
    assert ":" not in uri
    assert ".." not in uri.split("/")
    assert "" not in uri.split("/")
