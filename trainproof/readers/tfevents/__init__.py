"""TensorBoard event files: TFRecord frames around protobuf ``Event`` messages.

All ways of decoding give the same result. ``records`` takes one record at a time and decides
every question; ``repeats``, in files that are not large, and ``periodic`` and ``scattered``, in
others, take many at once with numpy, and only ever accept records of which every byte and both
checksums are accounted for. What they cannot account for they leave to ``records``, so a fault is
found at the same byte whichever way a file is read.

From the bottom: ``framing`` (lengths and checksums), ``wire`` (protobuf fields), ``event`` and
``tensor`` (the scalars in a record), ``points`` (what was read, by tag), ``records``, ``bulkcrc``
(checksums of many rows), ``template`` (records that differ in their numbers only), ``repeats``,
``periodic``, ``scattered``, ``reader``.
"""

from .limits import Limits, Tuning
from .reader import TfEvents

__all__ = ["Limits", "TfEvents", "Tuning"]
