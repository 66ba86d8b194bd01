"""Write examples/speech: an LJSpeech-like corpus of tones, with five faults.

    python examples/make_corpus.py

Needs nothing but the standard library, and writes the same bytes every time.
"""

from __future__ import annotations

import math
import wave
from pathlib import Path

HOME = Path(__file__).parent / "speech"
SECONDS = 0.6
SENTENCES = (
    "a quick brown fox",
    "over the lazy dog",
    "a stitch in time",
    "saves about nine",
    "still waters run",
    "deep and quietly",
    "many hands make",
    "light work of it",
    "the early bird",
    "catches the worm",
)


def tone(path: Path, pitch: float, rate: int = 8000, peak: float = 0.4) -> None:
    """Eight bits, one channel; beyond full scale it is clipped."""
    frames = (
        round(128 + 127 * max(-1.0, min(1.0, peak * math.sin(2 * math.pi * pitch * n / rate))))
        for n in range(int(SECONDS * rate))
    )
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(rate)
        file.writeframes(bytes(frames))


def main() -> None:
    wavs = HOME / "wavs"
    wavs.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, sentence in enumerate(SENTENCES, 1):
        tone(wavs / f"s{number:02}.wav", 200.0 + 10 * number)
        rows.append(f"s{number:02}|{sentence}|{sentence}")
    tone(wavs / "s11.wav", 330.0, rate=16000)
    tone(wavs / "s12.wav", 340.0, peak=3.0)
    rows += [
        "s11|at another rate|at another rate",
        "s12|much too loud|much too loud",
        "s13|never recorded|never recorded",
    ]
    rows[3] = "s04|saves about 9|saves about 9"
    rows[7] = rows[7].replace("work", "w\N{CYRILLIC SMALL LETTER O}rk")
    (HOME / "metadata.csv").write_text("\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
