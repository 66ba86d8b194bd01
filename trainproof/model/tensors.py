"""What the checkpoint readers produce: tensors with their statistics, and what a file says."""

from __future__ import annotations

from enum import StrEnum

import msgspec

Number = int | float


class Depth(StrEnum):
    """How much of a checkpoint is read; each includes the one before it.

    STRUCTURE: names, types, shapes, extents and globals. INTEGRITY: also the checksum of every
    entry of a format that has them. TENSORS: also the statistics of every tensor.
    """

    STRUCTURE = "structure"
    INTEGRITY = "integrity"
    TENSORS = "tensors"


class Extent(StrEnum):
    """How much of one file was read in the end. Never a pass for what was not."""

    READ = "read"
    STRUCTURE_ONLY = "structure-only"
    NOT_CHECKED = "not-checked"


class Layout(StrEnum):
    """The kind of file, decided by its content."""

    TORCH_ZIP = "torch-zip"
    TORCH_SCRIPT = "torch-script"
    TORCH_EXPORT = "torch-export"
    TORCH_PACKAGE = "torch-package"
    TORCH_LEGACY = "torch-legacy"
    TORCH_TAR = "torch-tar"
    TORCH_METADATA = "torch-distributed-metadata"
    TORCH_CHUNKS = "torch-distributed-chunks"
    PICKLE = "pickle"
    JOBLIB = "joblib"
    SAFETENSORS = "safetensors"
    SAFETENSORS_INDEX = "safetensors-index"
    NPY = "npy"
    NPZ = "npz"
    GGUF = "gguf"
    HDF5 = "hdf5"
    KERAS = "keras"
    ONNX = "onnx"
    MSGPACK = "msgpack"
    OCDBT = "ocdbt"
    TF_INDEX = "tensorflow-index"
    TF_DATA = "tensorflow-data"
    XGBOOST = "xgboost"
    ZIP = "zip"
    EMPTY = "empty"
    ZEROS = "zeros"
    LFS_POINTER = "git-lfs-pointer"
    MARKUP = "markup-page"
    JSON = "json"
    COMPRESSED = "compressed"
    UNKNOWN = "unknown"


class Kind(StrEnum):
    """How a tensor is held."""

    DENSE = "dense"
    STORAGE = "storage"
    QUANTIZED = "quantized"
    SPARSE = "sparse"
    NESTED = "nested"
    SUBCLASS = "subclass"
    META = "meta"
    ARRAY = "array"


class Group(StrEnum):
    """What part of the training a tensor belongs to, by its place in the file."""

    MODEL = "model"
    OPTIMIZER = "optimizer"
    AVERAGE = "average"
    STATE = "state"


class Presence(StrEnum):
    """Whether the bytes of a tensor are in the file."""

    WHOLE = "whole"
    CUT = "cut"
    ABSENT = "absent"


class TensorStats(msgspec.Struct, frozen=True, eq=False):
    """Measured over every element, as often as the tensor's own shape repeats it.

    ``elements`` = finite + ``nan`` + ``posinf`` + ``neginf``; for complex numbers ``nan`` and
    ``posinf`` count elements with such a part, and may count one element twice. ``zeros`` counts
    -0.0 as well. ``min`` and ``max`` are over finite elements, None where there is none and for
    complex numbers, whose ``absmax`` is the largest part. ``first_nonfinite`` is the index in the
    flattened tensor, None where there is none or the tensor is not stored in that order.
    ``bfloat16``: whether every element of a float32 tensor is also a number of bfloat16, False for
    all other types. Only of float16 and bfloat16: ``largest``: elements that are plus or minus the
    largest number of the type; ``sampled``: finite elements that are not zero and were looked at
    for their size, evenly spread, and ``subnormal`` of these, which lie below the smallest number
    that has all bits. How many were looked at depends on how the bytes came, so that equal tensors
    are equal whatever it is.
    """

    elements: int
    nan: int
    posinf: int
    neginf: int
    zeros: int
    min: Number | None
    max: Number | None
    absmax: Number | None
    first_nonfinite: int | None = None
    bfloat16: bool = False
    largest: int = 0
    sampled: int = 0
    subnormal: int = 0

    def _exact(self) -> tuple[object, ...]:
        return msgspec.structs.astuple(msgspec.structs.replace(self, sampled=0, subnormal=0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorStats) and self._exact() == other._exact()

    def __hash__(self) -> int:
        return hash(self._exact())

    @property
    def inf(self) -> int:
        return self.posinf + self.neginf

    @property
    def nonfinite(self) -> int:
        return self.nan + self.inf

    @property
    def all_zero(self) -> bool:
        """True for a tensor without elements too."""
        return self.zeros == self.elements

    @property
    def constant(self) -> bool:
        """At least one element, all finite and of the same value."""
        return self.min is not None and self.min == self.max and self.nonfinite == 0


class Piece(msgspec.Struct, frozen=True):
    """``nbytes`` bytes of a tensor from byte ``start`` of a file on."""

    artifact: str
    start: int
    nbytes: int


class TensorInfo(msgspec.Struct, frozen=True):
    """One tensor of a file.

    ``name``: the path inside the saved object, its keys joined by "/" (``model/fc.weight``);
    an attribute of a saved object has a "." in front of it. ``shape`` is None where the tensor
    has not one shape (nested). ``nbytes``: of its elements. ``storage`` is the key of the block
    of bytes it is a view of; tensors with the same one share memory (tied weights). ``unread``
    is the reason why ``stats`` is None, "" where nobody asked for them. ``crc``: CRC-32 of the
    tensor's bytes as stored, where it fills a stretch of the file: equal bytes have equal ones.
    ``place``: the first byte in the file of its elements, where they lie there as they are, in
    order, the low byte of each first; known only where values were asked for. ``pieces``: the same
    where they lie one after another in several places, or in other files.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    nbytes: int
    artifact: str
    stats: TensorStats | None = None
    unread: str = ""
    kind: Kind = Kind.DENSE
    group: Group = Group.MODEL
    presence: Presence = Presence.WHOLE
    storage: str | None = None
    crc: int | None = None
    subclass: str = ""
    place: int | None = None
    pieces: tuple[Piece, ...] = ()


class Safety(StrEnum):
    """What loading a pickle could do.

    SAFE: every global is on the list of those that only build data. UNKNOWN: some are on no
    list, or the pickle could not be followed to its end. UNSAFE: it calls what runs code, or its
    container is built so that programs disagree on what is in it.
    """

    SAFE = "safe"
    UNKNOWN = "unknown"
    UNSAFE = "unsafe"


class GlobalUse(msgspec.Struct, frozen=True):
    """A name that a pickle imports: ``torch._utils._rebuild_tensor_v2``; and in which entry."""

    name: str
    safety: Safety
    entry: str = ""


class Integrity(StrEnum):
    """What the checksums say. ABSENT: the format has none, or the file was written without."""

    VERIFIED = "verified"
    BROKEN = "broken"
    ABSENT = "absent"
    NOT_CHECKED = "not-checked"


class DefectCode(StrEnum):
    """What is wrong inside a file that could be read.

    A reader keeps going after each of them where it can; ``Fault`` says where it could not.
    """

    TRUNCATED = "truncated"
    SAVE_FAILED = "save-failed"
    CRC = "crc-mismatch"
    PLACEHOLDER = "placeholder-data"
    CONTAINER_LIE = "container-lie"
    CONTAINER_ODD = "container-odd"
    ENTRY_NAME = "entry-name"
    ENCRYPTED = "encrypted"
    COMPRESSED_STORAGE = "compressed-storage"
    STORAGE_MISSING = "storage-missing"
    STORAGE_SIZE = "storage-size"
    STORAGE_CONFLICT = "storage-conflict"
    STORAGE_ORPHAN = "storage-orphan"
    TENSOR_LAYOUT = "tensor-layout"
    TENSOR_EXPANDED = "tensor-expanded"
    PICKLE = "pickle-malformed"
    PICKLE_TAIL = "pickle-tail"
    DUPLICATE_KEY = "duplicate-key"
    BYTE_ORDER = "byte-order"
    HEADER = "header"
    SHARD_MISSING = "shard-missing"
    SHARD_EXTRA = "shard-extra"
    INDEX_TENSOR_ABSENT = "index-tensor-absent"
    INDEX_TENSOR_UNLISTED = "index-tensor-unlisted"
    TENSOR_TWICE = "tensor-in-two-shards"
    INDEX_SIZE = "index-size"
    FILE_MISSING = "file-missing"
    UNCOMMITTED = "uncommitted"


HARMLESS = frozenset(
    {
        DefectCode.CONTAINER_ODD,
        DefectCode.COMPRESSED_STORAGE,
        DefectCode.STORAGE_ORPHAN,
        DefectCode.TENSOR_EXPANDED,
        DefectCode.PICKLE_TAIL,
        DefectCode.DUPLICATE_KEY,
        DefectCode.SHARD_EXTRA,
        DefectCode.TENSOR_TWICE,
        DefectCode.INDEX_SIZE,
    }
)
"""Odd, and yet loaded as meant by the program that wrote the file."""


class Defect(msgspec.Struct, frozen=True):
    """``where``: the entry, storage, tensor or file, "" for the whole file."""

    code: DefectCode
    detail: str
    where: str = ""


class OptimizerState(msgspec.Struct, frozen=True):
    """One ``{"state": …, "param_groups": …}`` of a file.

    ``parameters``: ids listed in the groups. ``states``: ids that have state. ``unlisted``: ids
    with state that no group lists. ``steps``: the distinct step counts of the states, ascending,
    at most ``MAX_STEPS`` of them. ``lrs``: the learning rate of each group that has one.
    """

    name: str
    groups: int
    parameters: int
    states: int
    unlisted: int
    steps: tuple[Number, ...] = ()
    lrs: tuple[float, ...] = ()


MAX_STEPS = 16


class Scalar(msgspec.Struct, frozen=True):
    """A number, flag or short text of a file, named as tensors are."""

    name: str
    value: int | float | bool | str


class Unread(msgspec.Struct, frozen=True):
    """An object inside a file that was not read, and why."""

    name: str
    reason: str


class CheckpointFacts(msgspec.Struct, frozen=True):
    """What one file is and holds, besides its tensors. Yielded last, once, for every file.

    ``reason`` says why ``extent`` is not READ. ``keys``: of the outermost mapping.
    ``weights_only``: whether ``torch.load(weights_only=True)`` of torch 2.10 or later would accept
    the pickle, None where there is none. ``code``: entries that hold executable code (TorchScript,
    packages). The reader's limits bound ``scalars``, ``unread``, ``defects`` and ``globals``.
    """

    artifact: str
    layout: Layout
    size: int
    extent: Extent
    reason: str = ""
    tensors: int = 0
    integrity: Integrity = Integrity.NOT_CHECKED
    safety: Safety | None = None
    weights_only: bool | None = None
    globals: tuple[GlobalUse, ...] = ()
    code: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    optimizers: tuple[OptimizerState, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    metadata: tuple[Scalar, ...] = ()
    unread: tuple[Unread, ...] = ()
    defects: tuple[Defect, ...] = ()


class DirectoryKind(StrEnum):
    """Files that are one checkpoint together."""

    SHARDED = "sharded"
    PRETRAINED = "transformers-model"
    TRAINER = "transformers-trainer"
    ACCELERATE = "accelerate"
    ADAPTER = "peft-adapter"
    DIFFUSERS = "diffusers"
    DEEPSPEED = "deepspeed"
    MEGATRON = "megatron"
    DISTRIBUTED = "torch-distributed"
    ORBAX = "orbax"
    TENSORFLOW = "tensorflow"


class CheckpointDirectory(msgspec.Struct, frozen=True):
    """One set. ``files``: paths that belong to it. ``step``: the number in the directory's name.

    ``defects``: what is missing or contradicts; ``where`` is a name inside of the directory.
    ``said``: what the JSON files of its writer say at their outermost level, as ``config.json/
    vocab_size``; of an object the number of its keys.
    """

    path: str
    kind: DirectoryKind
    files: tuple[str, ...]
    step: int | None
    defects: tuple[Defect, ...] = ()
    said: tuple[Scalar, ...] = ()
