"""Exported programs of torch."""

from __future__ import annotations

import json

from tests.support.zips import Part, archive

FLOAT, LONG = 7, 5
VALUES = bytes.fromhex("0000803f 000000c0 0000c07f")
"""1, -2 and NaN."""


def listed(
    path: str, sizes: list[int], strides: list[int], *, dtype: int = FLOAT, pickled: bool = False
) -> dict[str, object]:
    return {
        "path_name": path,
        "is_param": True,
        "use_pickle": pickled,
        "tensor_meta": {
            "dtype": dtype,
            "sizes": [{"as_int": size} for size in sizes],
            "strides": [{"as_int": stride} for stride in strides],
            "storage_offset": {"as_int": 0},
            "layout": 7,
        },
    }


def export(weights: dict[str, object], *entries: Part) -> bytes:
    config = json.dumps({"config": weights}).encode()
    return archive(
        [
            *entries,
            Part("ep/data/weights/model_weights_config.json", config),
            Part("ep/data/constants/model_constants_config.json", b'{"config": {}}'),
            Part("ep/models/model.json", b"{}"),
            Part("ep/archive_format", b"pt2"),
            Part("ep/archive_version", b"0"),
            Part("ep/byteorder", b"little"),
        ]
    )
