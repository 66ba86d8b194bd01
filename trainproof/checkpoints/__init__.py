"""Checkpoints, read without unpickling: nothing that a file names is imported or called.

From the bottom: ``limits``, ``source`` (bytes), ``dtypes`` and ``scan`` (statistics), ``views``
and ``measure`` (tensors as parts of storages), ``pickles`` (opcodes to records), ``zipped`` (the
directory of a ZIP file), ``torch_objects`` and ``torch_contents`` (records to tensors), one module
per layout, and ``reader``, which chooses among them.

Here are the names that finding checkpoints needs; reading them is imported from ``reader`` and
``distributed``, so that an audit of logs does not wait for it.
"""

from .directories import Contents, assemble, parts_among, step_of
from .limits import LIMITS, Limits

__all__ = [
    "LIMITS",
    "Contents",
    "Limits",
    "assemble",
    "parts_among",
    "step_of",
]
