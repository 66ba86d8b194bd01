"""Checkpoints, read without unpickling: nothing that a file names is imported or called.

From the bottom: ``limits``, ``source`` (bytes), ``dtypes`` and ``scan`` (statistics), ``views``
and ``measure`` (tensors as parts of storages), ``pickles`` (opcodes to records), ``zipped`` (the
directory of a ZIP file), ``torch_objects`` and ``torch_contents`` (records to tensors), one module
per layout, and ``reader``, which chooses among them.
"""

from .directories import Contents, assemble, parts_among, step_of
from .distributed import read_distributed
from .draft import Item
from .limits import LIMITS, Limits
from .reader import read_checkpoint

__all__ = [
    "LIMITS",
    "Contents",
    "Item",
    "Limits",
    "assemble",
    "parts_among",
    "read_checkpoint",
    "read_distributed",
    "step_of",
]
