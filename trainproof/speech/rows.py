"""The rows of a corpus: which audio file, and what is said in it.

Manifests: LJSpeech ``metadata.csv`` and the lists of VITS (``id|text|normalised``), Kaldi
(``wav.scp``, ``text``, ``segments``), JSON lines of NeMo, ESPnet and the datasets library, tables
with a header (Common Voice, audio folders of the datasets library). Without a manifest: audio files
with a transcript beside them (``.txt``, ``.lab``), in a parallel directory (VCTK), or in the
``.trans.txt`` of their directory (LibriSpeech).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from trainproof.readers.json_text import loads

from .audio import DECODED, OTHERS

MAX_LINE = 1 << 20
"""Bytes of one row; a longer one is no row."""
MAX_TEXT = 1 << 16
"""Bytes of a transcript that is a file of its own."""
MAX_ROWS = 1_000_000
_TRIED = 1000
"""Files of a directory of which the first line is read, to see whether they are manifests."""

AUDIO = DECODED | OTHERS
_TRANSCRIPTS = (".txt", ".lab", ".normalized.txt")

_PATHS = (
    "audio_filepath",
    "audio_file",
    "audio_path",
    "audio",
    "wav",
    "wav_path",
    "path",
    "file_name",
    "filename",
    "file",
)
_TEXTS = ("text", "normalized_text", "transcript", "transcription", "sentence")
_DIRECTORIES = ("", "wavs", "clips", "audio")
_OF_IDS = (".wav", ".flac")
_TABLES = (".jsonl", ".ndjson", ".tsv", ".csv", ".manifest")
_MANIFESTS = (*_TABLES, ".json", ".txt")
"""Below the directory that was named the last ones lie beside audio, and are about one file."""


class Row(msgspec.Struct, frozen=True):
    """``audio``: where the file should be; None for what is no file here: one that a command would
    make (Kaldi), the member of an archive (NeMo: ``packed``), an address.

    ``artifact`` and ``line``: where the row is. ``text``: None where there is no transcript.
    ``seconds``: of this row, where the manifest says so; ``part``: whether it is only a part of
    the file.
    """

    audio: Path | None
    text: str | None
    artifact: str
    line: int | None
    name: str
    seconds: float | None = None
    part: bool = False
    packed: bool = False


class Bad(msgspec.Struct, frozen=True):
    """A line that is no row."""

    artifact: str
    line: int
    detail: str


Item = Row | Bad


def rows(path: Path, root: Path) -> Iterator[Item]:
    """Those of a manifest, of all manifests of a directory, or of what is below it: there, again,
    of the manifests of a directory, or of its audio files.

    Artifacts are named relative to ``root``. Raises OSError.
    """
    manifests = [path] if path.is_file() else _manifests(path, os.listdir(path), _MANIFESTS)
    found = (item for manifest in manifests for item in _of(manifest, root))
    yield from islice(found if manifests else _below(path, root), MAX_ROWS)


def _manifests(directory: Path, names: Sequence[str], ends: tuple[str, ...]) -> list[Path]:
    """Files that are manifests by their content. Kaldi's are known by their names."""
    if "wav.scp" in names:
        return [directory / "wav.scp"]
    tried = [name for name in sorted(names) if name.lower().endswith(ends) and name[0] != "."]
    return [directory / name for name in tried[:_TRIED] if _is_manifest(directory / name)]


def _is_manifest(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            first = file.readline(MAX_LINE)
    except OSError:
        return True  # whoever reads its rows says what is wrong
    text = first.decode("utf-8-sig", "replace").strip()
    if text.startswith("{"):
        return isinstance(_json(text.encode()), Row)
    if _header(text) is not None:
        return True
    name, *rest = text.split("|")
    return bool(rest) and (path.name == "metadata.csv" or Path(name).suffix.lower() in AUDIO)


def _of(manifest: Path, root: Path) -> Iterator[Item]:
    if manifest.name == "wav.scp":
        yield from _kaldi(manifest, root)
        return
    if manifest.suffix.lower() in AUDIO:
        yield _alone(manifest, root)
        return
    artifact, home = _named(manifest, root), manifest.parent
    header: tuple[str, Mapping[str, int]] | None = None
    for number, line in _lines(manifest):
        if line is None:
            yield Bad(artifact, number, f"a line of more than {MAX_LINE:,} bytes")
        elif number == 1 and (header := _header(line)) is not None:
            continue
        elif line.strip():
            yield _placed(_parsed(line, header), home, artifact, number)


def _lines(path: Path) -> Iterator[tuple[int, str | None]]:
    """None for a line that is too long; the rest of it is passed over."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            whole = line.endswith(b"\n") or len(line) < MAX_LINE
            encoding = "utf-8-sig" if number == 1 else "utf-8"
            yield number, line.decode(encoding, "replace").rstrip("\r\n") if whole else None
            while not whole:
                line = file.readline(MAX_LINE)
                whole = line.endswith(b"\n") or len(line) < MAX_LINE


def _parsed(line: str, header: tuple[str, Mapping[str, int]] | None) -> Row | str:
    """A row without its place; why it is none, otherwise."""
    if header is not None:
        return _cells(line, *header)
    if line.lstrip().startswith("{"):
        return _json(line.encode())
    if "|" in line:
        return _piped(line)
    return "neither JSON nor id|text, and there is no header"


def _placed(found: Row | str, home: Path, artifact: str, number: int) -> Item:
    if isinstance(found, str):
        return Bad(artifact, number, found)
    elsewhere = found.packed or "://" in found.name
    audio = None if elsewhere else _located(found.name, home)
    return replace(found, audio=audio, artifact=artifact, line=number)


def _located(name: str, home: Path) -> Path:
    """Relative to the manifest, in the directory that corpora of this kind have, or relative to
    where the recipe is started; an id is a file in ``wavs``."""
    named = Path(name.replace("\0", ""))
    is_id = named.suffix.lower() not in AUDIO
    files = [Path(f"{named}{suffix}") for suffix in _OF_IDS] if is_id else [named]
    tried = [home / directory / file for directory in _DIRECTORIES for file in files]
    above = [place / file for place in _started(home) for file in files]
    found = (path for path in (*tried, *above) if os.path.exists(path))
    return next(found, home / "wavs" / files[0] if is_id else tried[0])


def _started(home: Path) -> tuple[Path, ...]:
    """Where recipes are started, from which their lists name files: above the directory of lists
    (``filelists``, Kaldi's ``data/train``), or where trainproof was."""
    return (*home.parents[:2], Path())


# --- forms of rows ------------------------------------------------------------------------------


def _json(line: bytes) -> Row | str:
    try:
        value = loads(line)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(value, dict):
        return "no JSON object"
    name: str = next((told for key in _PATHS if (told := _path(value.get(key)))), "")
    if not name:
        return f"none of the keys {', '.join(_PATHS[:4])} …"
    texts = (value[key] for key in _TEXTS if isinstance(value.get(key), str))
    seconds, packed = _seconds(value.get("duration")), "shard_id" in value
    return Row(None, next(texts, None), "", None, name, seconds, packed=packed)


def _path(value: object) -> str:
    """Also the ``{"path": …}`` of the datasets library."""
    if isinstance(value, dict):
        value = value.get("path")
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e9 else None


def _piped(line: str) -> Row | str:
    """``id|text``, ``id|text|normalised`` or ``path|speaker|text``: the text is the last one."""
    first, *rest = line.split("|")
    if not first.strip() or not rest:
        return "no id before the first |"
    texts = rest if Path(first).suffix.lower() in AUDIO else [one for one in rest if one.strip()]
    return Row(None, texts[-1] if texts else "", "", None, first.strip())


def _header(line: str) -> tuple[str, Mapping[str, int]] | None:
    """Separator and columns of a table with names for the audio and for the text."""
    for separator in ("\t", ",", "|"):
        names = [name.strip().strip('"').lower() for name in line.split(separator)]
        columns = {name: at for at, name in reversed(list(enumerate(names)))}
        paths = [columns[name] for name in _PATHS if name in columns]
        texts = [columns[name] for name in _TEXTS if name in columns]
        if len(names) > 1 and paths and texts:
            return separator, {"path": paths[0], "text": texts[0]}
    return None


class _Unquoted(csv.excel):
    """Common Voice does not quote: a quotation mark in a sentence is one."""

    quoting = csv.QUOTE_NONE


def _cells(line: str, separator: str, columns: Mapping[str, int]) -> Row | str:
    try:
        form = csv.excel if separator == "," else _Unquoted
        (cells,) = csv.reader([line], form, delimiter=separator)
    except (csv.Error, ValueError) as error:
        return f"no row of a table: {error}"
    if len(cells) <= max(columns.values()):
        return f"{len(cells)} cells, fewer than the header has"
    name = cells[columns["path"]].strip()
    return Row(None, cells[columns["text"]], "", None, name) if name else "no name of a file"


# --- Kaldi --------------------------------------------------------------------------------------


def _kaldi(scp: Path, root: Path) -> Iterator[Item]:
    """https://kaldi-asr.org/doc/data_prep.html. Commands (``sph2pipe … |``) are never run."""
    home, texts = scp.parent, dict(_pairs(scp.parent / "text"))
    known = (home / "text").is_file()
    if not (home / "segments").is_file():
        for number, (id, where) in enumerate(_pairs(scp), 1):
            text = texts.get(id, "") if known else None
            yield Row(_recording(where, home), text, _named(scp, root), number, where or id)
        return
    recordings = dict(_pairs(scp))
    artifact = _named(home / "segments", root)
    for number, (id, rest) in enumerate(_pairs(home / "segments"), 1):
        recording, *times = rest.split()
        where = recordings.get(recording, "")
        try:
            start, end = map(float, times[:2])
        except ValueError:
            yield Bad(artifact, number, "no start and end after the recording")
            continue
        text = texts.get(id, "") if known else None
        audio = _recording(where, home)
        yield Row(audio, text, artifact, number, where or recording, max(0.0, end - start), True)


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    """First word and the rest of each line; an empty pair for a line that has no two."""
    if not path.is_file():
        return
    for _, line in islice(_lines(path), MAX_ROWS):
        id, _, rest = (line or "").strip().partition(" ")
        yield id, rest.strip()


def _recording(where: str, home: Path) -> Path | None:
    if not where or where.endswith("|") or ":" in where.rpartition("/")[2]:
        return None
    name = where.replace("\0", "")
    tried = [place / name for place in (home, *_started(home))]
    return next((path for path in tried if os.path.exists(path)), tried[0])


# --- below a directory --------------------------------------------------------------------------


def _below(directory: Path, root: Path) -> Iterator[Item]:
    """What is below a directory with a manifest is left to that."""
    for home, directories, names in os.walk(directory):
        directories[:] = sorted(name for name in directories if name[0] != ".")
        if manifests := _manifests(Path(home), names, _TABLES):
            directories.clear()
            yield from (item for manifest in manifests for item in _of(manifest, root))
        else:
            yield from _beside(Path(home), sorted(names), root)


def _beside(home: Path, names: Sequence[str], root: Path) -> Iterator[Row]:
    """The audio files of a directory, with the transcripts beside them."""
    listed: dict[str, str] = {}
    for name in names:
        if name.endswith(".trans.txt"):
            listed.update(_pairs(home / name))
    for name in names:
        if Path(name).suffix.lower() in AUDIO:
            yield _alone(home / name, root, listed.get(Path(name).stem))


def _alone(audio: Path, root: Path, text: str | None = None) -> Row:
    name = _named(audio, root)
    return Row(audio, _transcript(audio) if text is None else text, name, None, name)


def _transcript(audio: Path) -> str | None:
    stem = str(audio.with_suffix(""))
    tried = [Path(f"{stem}{suffix}") for suffix in _TRANSCRIPTS]
    parts = audio.parts
    at = next((i for i, part in enumerate(parts) if part.startswith("wav")), None)
    if at is not None:
        speaker = audio.stem.partition("_mic")[0]
        tried.append(Path(*parts[:at], "txt", *parts[at + 1 : -1], f"{speaker}.txt"))
    for path in tried:
        if path.is_file():
            with path.open("rb") as file:
                return file.read(MAX_TEXT).decode("utf-8-sig", "replace")
    return None


def _named(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
