"""One audio file: what its header says, and a bounded part of its samples.

``soundfile`` reads most formats; without it the standard library still reads plain PCM in WAV.
"""

from __future__ import annotations

import os
import stat
import wave
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np

from trainproof.model.data import Floats
from trainproof.model.speech import FULL, SAMPLED_SECONDS, SILENT

DECODED = frozenset(
    (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64")
)
"""Formats that libsndfile reads: one of these that it cannot read is broken."""
EXTRA = "needs trainproof[speech]"
_PLAIN = (".wav",)
OTHERS = frozenset((".m4a", ".mp4", ".aac", ".wma", ".amr", ".webm", ".sph"))
"""Audio by its name, for which there is no decoder here."""
_UNSAID = frozenset({0, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000})
"""Sizes in a RIFF header that say that the writer did not know."""


class Unreadable(Exception):
    """The file is there, and is no audio."""


class Unsupported(Exception):
    """The file may well be audio; nothing here can tell."""


class Header(msgspec.Struct, frozen=True):
    """``frames``: samples of one channel. ``cut``: whether the header speaks of more bytes than
    the file has."""

    rate: int
    channels: int
    frames: int
    cut: bool = False

    @property
    def seconds(self) -> float:
        return self.frames / self.rate if self.rate > 0 else 0.0


class Samples(msgspec.Struct, frozen=True):
    """``flat``: the most equal samples in a row at full scale, in any channel. ``silence``: the
    longest stretch, in seconds, in which no channel is above ``SILENT``."""

    flat: int
    silence: float


def has_decoder() -> bool:
    return find_spec("soundfile") is not None


def header(path: Path, size: int) -> Header:
    """Raises FileNotFoundError, Unreadable and Unsupported."""
    suffix = path.suffix.lower()
    if size == 0:
        raise Unreadable("it has no bytes")
    if has_decoder() and suffix in DECODED:
        return _with_soundfile(path, size)
    if suffix in _PLAIN:
        return _with_wave(path, size)
    raise Unsupported(EXTRA if suffix in DECODED else f"no decoder for {suffix or 'its name'}")


def regular(path: Path) -> int:
    """Its size. Raises FileNotFoundError, and Unreadable for what is no file of bytes."""
    try:
        told = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise Unreadable(error.strerror or type(error).__name__) from None
    except ValueError:
        raise Unreadable("its name is none that a file can have") from None
    if not stat.S_ISREG(told.st_mode):
        raise Unreadable("it is no regular file")
    return told.st_size


def samples(path: Path, found: Header) -> Samples | None:
    """Of the first ``SAMPLED_SECONDS``; None where they cannot be decoded."""
    frames = min(found.frames, int(SAMPLED_SECONDS * found.rate))
    if has_decoder():
        import soundfile  # noqa: PLC0415 - the extra

        try:
            values, _ = soundfile.read(path, frames=frames, dtype="float32", always_2d=True)
        except (soundfile.SoundFileError, RuntimeError, OSError):
            return None
    else:
        values = _pcm(path, frames)
    return None if values is None or not len(values) else _measured(values, found.rate)


def _with_soundfile(path: Path, size: int) -> Header:
    import soundfile  # noqa: PLC0415 - the extra

    try:
        info = soundfile.info(path)
    except (soundfile.SoundFileError, RuntimeError, OSError) as error:
        raise Unreadable(str(error).rpartition(": ")[2] or type(error).__name__) from None
    if info.samplerate <= 0 or info.channels <= 0:
        raise Unreadable("no sample rate or no channel")
    return Header(info.samplerate, info.channels, max(0, info.frames), _cut(path, size))


def _with_wave(path: Path, size: int) -> Header:
    try:
        with wave.open(str(path), "rb") as file:
            frame = max(1, file.getnchannels() * file.getsampwidth())
            frames = min(file.getnframes(), size // frame)
            return Header(file.getframerate(), file.getnchannels(), frames, _cut(path, size))
    except wave.Error as error:
        if "unknown format" in str(error):
            raise Unsupported(EXTRA) from None
        raise Unreadable(str(error)) from None
    except (EOFError, OSError, ZeroDivisionError) as error:
        raise Unreadable(str(error) or "it ends in its header") from None


def _cut(path: Path, size: int) -> bool:
    """Whether a RIFF header speaks of more than there is. Those of streams do not say."""
    with path.open("rb") as file:
        head = file.read(12)
    told = int.from_bytes(head[4:8], "little")
    return (
        head[:4] == b"RIFF" and head[8:] == b"WAVE" and told not in _UNSAID and told + 8 > size + 1
    )


def _pcm(path: Path, frames: int) -> Floats | None:
    """PCM of 8 (unsigned), 16, 24 or 32 bits, as shares of full scale; shape frames x channels."""
    try:
        with wave.open(str(path), "rb") as file:
            width, channels = file.getsampwidth(), file.getnchannels()
            data = file.readframes(frames)
    except (wave.Error, EOFError, OSError):
        return None
    raw = np.frombuffer(data[: len(data) // (width * channels) * width * channels], np.uint8)
    if width == 1:
        values = (raw.astype(np.float64) - 128) / 128
    else:
        padded = np.zeros((len(raw) // width, 4), np.uint8)
        padded[:, 4 - width :] = raw.reshape(-1, width)
        values = padded.view("<i4")[:, 0] / 2.0**31
    return values.reshape(-1, channels)


def _measured(values: Floats, rate: int) -> Samples:
    loud = np.abs(values)
    level = loud.max(axis=1)
    high = loud[1:] >= FULL
    flat = max(
        _longest(high[:, c] & (values[1:, c] == values[:-1, c])) for c in range(values.shape[1])
    )
    return Samples(
        flat + 1 if flat else int(bool((level >= FULL).any())), _longest(level < SILENT) / rate
    )


def _longest(marks: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """The most marked places in a row."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], marks, [False])).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0
