"""Headers and samples of real files, with libsndfile and without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.audio import tone, write_audio, write_wav
from trainproof.model.speech import SAMPLED_SECONDS
from trainproof.speech.audio import (
    Header,
    Samples,
    Unreadable,
    Unsupported,
    _pcm,
    _with_wave,
    header,
    regular,
    samples,
)


def looked(path: Path) -> Header:
    return header(path, regular(path))


def sampled(path: Path) -> Samples:
    found = samples(path, looked(path))
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.aiff", "a.mp3"])
def test_headers_of_common_formats(tmp_path: Path, name: str) -> None:
    found = looked(write_audio(tmp_path / name, tone(2.0, 16000), 16000))
    assert (found.rate, found.channels, found.cut) == (16000, 1, False)
    assert found.seconds == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_the_standard_library_and_libsndfile_say_the_same_of_pcm(
    tmp_path: Path, width: int
) -> None:
    stereo = np.stack([tone(0.5), 0.5 * tone(0.5)], axis=1)
    path = write_wav(tmp_path / "a.wav", stereo, width=width)
    size = regular(path)
    assert _with_wave(path, size) == header(path, size) == Header(16000, 2, 8000)
    values = _pcm(path, 8000)
    assert values is not None
    assert np.allclose(values, stereo, atol=2.0 ** (2 - 8 * width))


def test_a_flat_top_is_clipped_and_a_loud_wave_is_not(tmp_path: Path) -> None:
    loud = sampled(write_wav(tmp_path / "loud.wav", tone(peak=1.0, pitch=50.0)))
    clipped = sampled(write_wav(tmp_path / "clipped.wav", np.clip(tone(peak=3.0), -1, 1)))
    quiet = sampled(write_wav(tmp_path / "quiet.wav", tone(peak=0.5)))
    assert loud.flat < 4
    assert clipped.flat > 20
    assert quiet.flat == 0


def test_the_longest_silence_counts(tmp_path: Path) -> None:
    parts = [np.zeros(8000), tone(1.0), np.zeros(24000), tone(0.5)]
    found = sampled(write_wav(tmp_path / "a.wav", np.concatenate(parts)))
    assert found.silence == pytest.approx(1.5, abs=0.01)


def test_silence_is_what_no_channel_breaks(tmp_path: Path) -> None:
    stereo = np.stack([np.zeros(32000), tone(2.0)], axis=1)
    assert sampled(write_wav(tmp_path / "a.wav", stereo)).silence < 0.01


def test_no_more_than_the_bound_is_read(tmp_path: Path) -> None:
    rate = 1000
    values = np.concatenate([tone(SAMPLED_SECONDS, rate), np.zeros(10 * rate)])
    assert sampled(write_wav(tmp_path / "a.wav", values, rate)).silence < 1


def test_a_cut_file_is_cut_and_a_stream_is_not(tmp_path: Path) -> None:
    whole = write_wav(tmp_path / "a.wav").read_bytes()
    cut = tmp_path / "cut.wav"
    cut.write_bytes(whole[: len(whole) // 2])
    assert looked(cut).cut
    assert looked(cut).seconds == pytest.approx(1.0, abs=0.01)
    stream = tmp_path / "stream.wav"
    stream.write_bytes(whole[:4] + b"\xff\xff\xff\xff" + whole[8:])
    assert not looked(stream).cut


@pytest.mark.parametrize("data", [b"", b"RIFF", b"RIFFxxxxWAVE", b"\0" * 100, b"<html>no</html>"])
@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg"])
def test_what_is_no_audio_cannot_be_read(tmp_path: Path, data: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(Unreadable):
        looked(path)


def test_a_format_without_a_decoder_is_none_that_is_broken(tmp_path: Path) -> None:
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x20ftypM4A ")
    with pytest.raises(Unsupported, match="no decoder for"):
        looked(tmp_path / "a.m4a")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(Unreadable, match="no regular file"):
        regular(tmp_path / "pipe.wav")
    with pytest.raises(Unreadable, match="no regular file"):
        regular(tmp_path)
    for name in ("nowhere.wav", "nowhere/a.wav"):
        with pytest.raises(FileNotFoundError):
            regular(tmp_path / name)
    with pytest.raises(Unreadable):
        regular(tmp_path / ("x" * 5000))


def test_a_bare_header_that_claims_everything_costs_nothing(tmp_path: Path) -> None:
    whole = write_wav(tmp_path / "a.wav").read_bytes()
    path = tmp_path / "b.wav"
    path.write_bytes(whole[:40] + b"\xfe\xff\xff\x7f" + whole[44:144])
    found = looked(path)
    assert found.frames <= 100
    assert samples(path, found) is not None


WITHOUT = """
import sys
sys.modules["soundfile"] = None
import importlib.util, pathlib
from trainproof.speech import audio
audio.has_decoder = lambda: False
home = pathlib.Path(sys.argv[1])
print(audio.header(home / "a.wav", audio.regular(home / "a.wav")))
print(audio.samples(home / "a.wav", audio.Header(16000, 1, 32000)).silence < 0.01)
for name in ("b.flac", "c.wav"):
    try:
        audio.header(home / name, audio.regular(home / name))
    except audio.Unsupported as error:
        print(name, error)
"""


def test_without_the_extra_plain_wav_is_read_and_the_rest_names_it(tmp_path: Path) -> None:
    import soundfile  # noqa: PLC0415

    write_wav(tmp_path / "a.wav")
    write_audio(tmp_path / "b.flac")
    soundfile.write(tmp_path / "c.wav", tone(), 16000, subtype="FLOAT")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "Header(rate=16000, channels=1, frames=32000, cut=False)",
        "True",
        "b.flac needs trainproof[speech]",
        "c.wav needs trainproof[speech]",
    ]
