"""Keras files: a configuration, and weights in HDF5."""

from __future__ import annotations

import json

from tests.support import hdf5_files
from tests.support.zips import Part, archive

DENSE = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 3}}


def keras(*layers: object, weights: bytes | None = None) -> bytes:
    config = {"module": "keras", "class_name": "Sequential", "config": {"layers": layers}}
    return archive(
        [
            Part("metadata.json", b'{"keras_version": "3.15.1"}'),
            Part("config.json", json.dumps(config).encode()),
            Part("model.weights.h5", hdf5_files.one() if weights is None else weights),
        ]
    )
