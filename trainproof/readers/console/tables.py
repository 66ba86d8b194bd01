"""Tables on the console -> lines that name what each number is.

Two kinds are common. Reinforcement learning draws a box for each report, a name and a value in
each row (Stable-Baselines, Baselines, Spinning Up). Others print the names once and rows of
numbers below them (fastai, skorch), with bars between the cells or without, YOLO with a progress
bar at the end of each row. All become lines such as ``epoch: 0/99, box: 0.1``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from trainproof.readers.names import split_of

MAX_ROWS = 200
"""Rows of a box."""

FULL = 100
"""Per cent of a bar."""

PATIENCE = 20
"""Lines of something else (warnings, progress bars) that may stand within a box."""

RULE = re.compile(r"\s*[-=+|]{8,}\s*")
"""What stands above and below a box."""

ROW = re.compile(
    r"\s*\|(?P<indent>\s*)(?P<name>[^|\s][^|]{0,79}?)\s*\|\s*(?P<value>[^|]{0,40}?)\s*\|\s*"
)

HEADER = re.compile(
    r"\s*(?P<place>[Ee]poch|EPOCH|[Ss]tep|[Ii]ter(?:ation)?)"
    r"(?P<names>(?:\s+[A-Za-z][\w/.-]{0,40}){2,40})\s*"
)
"""The names of a table; one of them is a loss or says how much memory is used."""

SPACY = re.compile(r"E {2,}#(?P<names>(?: {2,}[A-Z_]+(?: [A-Z0-9_]+)?){2,40}) *")
"""The same of spaCy, some of whose names are two words: epochs, steps, and losses by component."""

BAR = re.compile(r"[|\u2502\u2503]")
PLACES = frozenset({"epoch", "step", "iter", "iteration"})
CAPTION = re.compile(r"[A-Za-z][\w /.-]{0,40}")
LINE = re.compile(r"[-:=+ \u2500\u2501]+")
"""Cells of a table with bars, as in Markdown: names in its first row, a line below them."""

EPOCH = re.compile(
    r"\s*(?P<at>\d{1,9}/\d{1,9})(?P<numbers>(?:\s+[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)G?){2,40})"
    r":\s+(?P<done>\d{1,3})%",
    re.IGNORECASE,
)
CLASSES = re.compile(
    r"\s*Class\s+Images\s+(?:Labels|Instances|Targets)\s+(?P<names>[^%]{1,200}?):?(?:\s{1,20}\d{1,3}%|\s{0,20}$)"
)
"""The names of what is measured on held-out images, behind counts of these."""

ALL = re.compile(
    r"\s*all\s+\d+\s+\d+(?P<numbers>(?:\s+(?:\d[\d.]*(?:e[-+]?\d+)?|nan)){2,20})\s*", re.IGNORECASE
)
"""The row about all classes; one for each class may follow."""

NUMBER = re.compile(r"(?:\d{1,9}/\d{1,9}|[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))\Z", re.IGNORECASE)
"""A cell that is one, and no clock (``00:12``)."""

LOSSES = {"box": "box_loss", "obj": "obj_loss", "cls": "cls_loss", "total": "loss"}
"""What YOLOv5 up to 5.0 and YOLOv7 call their losses."""

MEASURES = {
    "p": "precision",
    "r": "recall",
    "map@.5": "mAP@0.5",
    "map@.5:.95": "mAP@0.5:0.95",
    "map50": "mAP50",
    "map50-95": "mAP50_95",
}


class Tables(msgspec.Struct):
    """What has been seen of the tables of one log. ``passing``: the last line is of no table, and
    neither begins one nor is within one. ``begun``: how often other names than before came up."""

    passing: bool = True
    begun: int = 0
    _box: dict[str, str] | None = None
    _section: str = ""
    _patience: int = 0
    _names: Sequence[str] = msgspec.field(default_factory=list)
    _measures: Sequence[str] = msgspec.field(default_factory=list)
    _columns: Sequence[str] = msgspec.field(default_factory=list)

    def line(self, text: str) -> str:
        """What the line says with the names of its table, nothing while a box is open; the line
        itself where it is not of a table."""
        self.passing = False
        if "|" in text or "\u2502" in text or "\u2503" in text:
            told = self._barred(text)
            if told is not None:
                return told
        if self._box is not None or text[:1] in ("-", "="):
            return self._boxed(text)
        if "all" in text and self._measures and (row := ALL.fullmatch(text)):
            return _named(self._measures, row["numbers"].split()) or text
        if "Class" in text and (classes := CLASSES.match(text)):
            self._measures = self._new(self._measures, _measures(classes["names"].split()))
            return ""
        if self._names and (found := self._row(text)) is not None:
            return found
        if text[-1:].isalpha() or text[-1:].isspace():
            self.passing = not self._head(text)
        else:
            self.passing = True
        return text

    @property
    def open(self) -> bool:
        """Whether a line now may be of a table whatever it is."""
        return self._box is not None

    # --- boxes ---------------------------------------------------------------------------------

    def _boxed(self, text: str) -> str:
        if RULE.fullmatch(text):
            box, self._box, self._section, self._patience = self._box, {}, "", PATIENCE
            if not box:
                return text
            self._box = None
            return ", ".join(f"{name}: {value}" for name, value in box.items())
        if self._box is None:
            return text
        row = ROW.fullmatch(text)
        if row is None or len(self._box) >= MAX_ROWS:
            self._patience -= 1
            if self._patience < 0 or not self._box:
                self._box = None
            return text
        if not row["value"]:
            self._section = row["name"]
        elif len(row["indent"]) > 1:
            self._box[self._section + row["name"]] = row["value"]
        else:
            self._box[row["name"]] = row["value"]
        return ""

    # --- cells between bars ---------------------------------------------------------------------

    def _barred(self, text: str) -> str | None:
        """What a row of such a table says, nothing of its names; None where it is no row of one."""
        cells = [cell.strip() for cell in BAR.split(text.strip().strip("|\u2502\u2503"))]
        if not 2 <= len(cells) <= MAX_ROWS:
            return None
        if len(cells) == len(self._columns):
            if NUMBER.match(cells[0]):
                return _named(self._columns, cells)
            if all(map(LINE.fullmatch, cells)):
                return ""
        lowered = [cell.lower() for cell in cells]
        if lowered[0] in PLACES and any("loss" in cell for cell in lowered):
            if not all(map(CAPTION.fullmatch, cells)):
                return None
            self._columns = self._new(self._columns, [lowered[0], *map(_loss, cells[1:])])
            return ""
        return None

    # --- names above, numbers below ------------------------------------------------------------

    def _head(self, text: str) -> bool:
        """Whether the line names what the numbers below it are."""
        if header := HEADER.fullmatch(text):
            names = header["names"].split()
            if any("loss" in name.lower() or name.lower() == "gpu_mem" for name in names):
                names = [header["place"].lower(), *map(_loss, names)]
                self._names = self._new(self._names, names)
                return True
        elif text.startswith("E ") and (header := SPACY.fullmatch(text)):
            names = ["epoch", "step", *re.split(" {2,}", header["names"].strip())]
            self._names = self._new(self._names, names)
            return True
        return False

    def _new(self, known: Sequence[str], names: Sequence[str]) -> Sequence[str]:
        self.begun += known != names
        return names

    def _row(self, text: str) -> str | None:
        """The row with its names; nothing of a bar that is not at its end, for running values are
        no result. None where it is no row."""
        if "%" in text and (row := EPOCH.match(text)):
            if int(row["done"]) < FULL:
                return ""
            cells = [row["at"], *(number.rstrip("Gg") for number in row["numbers"].split())]
        elif text.lstrip()[:1].isdecimal():
            cells = text.split(maxsplit=len(self._names))
        else:
            return None
        return _named(self._names, cells) or None


def _loss(name: str) -> str:
    name = LOSSES.get(name, name)
    told = name != "loss" and (not name.endswith("_loss") or split_of(name) is not None)
    return name if told else f"train/{name}"


def _measures(words: Sequence[str]) -> list[str]:
    """``Box(P  R  mAP50  mAP50-95)  Mask(P  R …)``, of which the first part has a name of its own
    since YOLOv8."""
    names: list[str] = []
    part = ""
    for word in words:
        kind, opened, rest = word.rpartition("(")
        part = kind if opened else part
        name = rest.rstrip(")")
        suffix = f"({part[:1]})" if part else ""
        names.append(f"metrics/{MEASURES.get(name.lower(), name)}{suffix}")
    return names


def _named(names: Sequence[str], values: Sequence[str]) -> str:
    """Names and numbers side by side; nothing where there are not as many cells as names."""
    if len(names) != len(values):
        return ""
    cells = zip(names, values, strict=True)
    return ", ".join(f"{name}: {value}" for name, value in cells if NUMBER.match(value))
