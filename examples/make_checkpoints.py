"""Make examples/checkpoints: four models without a log, two of them broken, and a tensor of data.

python examples/make_checkpoints.py
"""

import json
import math
import random
import struct
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent / "checkpoints"
SIZES = {"embed.weight": (32, 8), "layers.0.weight": (8, 8), "layers.0.bias": (8,)}
Tensors = Mapping[str, list[float]]


def main() -> None:
    dice = random.Random(0)
    start = model(dice, {})
    write("encoder/model.safetensors", start)
    write("run/step_100.safetensors", model(dice, start))
    broken = model(dice, start)
    broken["layers.0.weight"][5] = math.nan
    write("run/step_200.safetensors", broken)
    whole = write("copied/net.safetensors", start)
    whole.write_bytes(whole.read_bytes()[:-200])  # the disk was full
    write("points.safetensors", {"x": [1.0, math.nan, 3.0]}, {"x": (3,)})


def model(dice: random.Random, before: Tensors) -> dict[str, list[float]]:
    """Weights that have moved a little from those before."""
    return {
        name: [dice.gauss(old, 0.02) for old in before.get(name, [0.0] * math.prod(shape))]
        for name, shape in SIZES.items()
    }


def write(name: str, tensors: Tensors, shapes: Mapping[str, tuple[int, ...]] = SIZES) -> Path:
    header, at = {}, 0
    for key, values in tensors.items():
        end = at + 4 * len(values)
        header[key] = {"dtype": "F32", "shape": shapes[key], "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    data = b"".join(struct.pack(f"<{len(values)}f", *values) for values in tensors.values())
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


if __name__ == "__main__":
    main()
