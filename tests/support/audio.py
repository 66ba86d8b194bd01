"""Audio files as their writers leave them."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import soundfile

from trainproof.model.data import Floats


def tone(
    seconds: float = 2.0, rate: int = 16000, peak: float = 0.5, pitch: float = 220.0
) -> Floats:
    """A sine, as shares of full scale."""
    return peak * np.sin(2 * np.pi * pitch * np.arange(int(seconds * rate)) / rate)


def write_wav(path: Path, values: Floats | None = None, rate: int = 16000, width: int = 2) -> Path:
    """Plain PCM through the standard library; ``values``: frames, or frames x channels."""
    values = tone(rate=rate) if values is None else values
    channels = 1 if values.ndim == 1 else values.shape[1]
    scaled = np.clip(np.round(values * 2 ** (8 * width - 1)), *_limits(width)).astype("<i4")
    data = scaled.reshape(-1, 1).view(np.uint8)[:, :width]
    if width == 1:
        data = (scaled.reshape(-1, 1) + 128).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data.tobytes())
    return path


def write_audio(path: Path, values: Floats | None = None, rate: int = 16000) -> Path:
    """Whatever its name says, through libsndfile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone(rate=rate) if values is None else values, rate)
    return path


def _limits(width: int) -> tuple[int, int]:
    return -(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1
