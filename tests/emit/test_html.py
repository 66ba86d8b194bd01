"""The page for people: complete, and nothing in it that a log could have put there."""

from __future__ import annotations

from html.parser import HTMLParser

from msgspec.structs import replace

from tests.support.report import finding, hostile, report, series, subject, unreadable
from trainproof.emit.html import IN_FULL, report_html
from trainproof.model.outcome import Level

VOID = {"meta", "br"}


class _Reader(HTMLParser):
    """Elements must nest; text and attributes are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: bytes) -> _Reader:
    reader = _Reader()
    reader.feed(page.decode())
    assert reader.open == []
    return reader


def told(page: bytes) -> str:
    return " ".join(" ".join(read(page).text).split())


def test_a_finding_is_told_with_its_numbers_its_place_and_its_limits() -> None:
    found = finding(message="loss is NaN", evidence="40 of 80", first_step=30, last_step=50)
    text = told(report_html(report(subject("a", findings=[found]))))
    assert "FAIL TP-NAN loss is NaN" in text
    assert "40 of 80" in text
    assert "steps 30 to 50" in text
    assert "Does not mean: " in text
    assert "exit code 1: at least one run is FAIL." in text


def test_nothing_from_a_log_becomes_an_element_or_an_attribute() -> None:
    bad = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e"
    made = report(
        subject(bad, findings=[finding(message=bad)], series=[series(bad)]),
        hostile().reports[0],
        error=bad,
    )
    reader = read(report_html(made))
    assert {tag for tag, _ in reader.seen}.isdisjoint({"script", "img", "link", "iframe"})
    names = {name for _, attributes in reader.seen for name in attributes}
    assert not any(name.startswith("on") or name in ("src", "style") for name in names)
    links = [attributes["href"] for tag, attributes in reader.seen if tag == "a"]
    assert links == [f"#s{place}" for place in range(len(links))]
    assert "\\u202e" in "".join(reader.text)


def test_a_curve_is_a_line_with_a_gap_and_a_dot_where_it_is_not_finite() -> None:
    page = report_html(report(subject(series=[series(curve="▁█×▁")]))).decode()
    assert '<polyline points="2,22 6,2"/><polyline points="14,22"/><circle cx="10"' in page


def test_what_is_no_run_shows_what_was_measured_of_it() -> None:
    made = replace(subject("rows.jsonl"), kind="dataset", measured={"rows": 12, "bytes": 345})
    text = told(report_html(report(made)))
    assert "Measured rows=12, bytes=345" in text
    assert "Verdict Dataset Curve" in text


def test_what_is_left_out_is_counted() -> None:
    page = report_html(report(*(subject(f"run{n}") for n in range(IN_FULL + 7))))
    assert "and 7 more runs: the JSON report has them." in told(page)
    assert sum(tag == "a" for tag, _ in read(page).seen) == IN_FULL


def test_what_could_not_be_read_is_told() -> None:
    text = told(report_html(report(unreadable("broken"))))
    assert "Should have been checked and was not" in text
    assert "exit code 2" in text


def test_the_worst_run_comes_first_and_is_open() -> None:
    page = report_html(report(subject("fine"), subject("bad", findings=[finding()])))
    opened = [a for tag, a in read(page).seen if tag == "details" and "id" in a]
    assert [("open" in one, one["id"]) for one in opened] == [(True, "s0"), (False, "s1")]
    assert page.index(b"bad") < page.index(b"fine")


def test_information_is_no_warning() -> None:
    page = report_html(report(subject(findings=[finding(level=Level.INFO)])))
    assert '<span class="b INFO">INFO</span>' in page.decode()
