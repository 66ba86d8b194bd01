"""Which imported names only build data.

A list of what is dangerous is never complete; everything that is on neither list here is
unknown, and an unknown name is reported. The list of dangerous names exists only to be able to
say "this runs code" rather than "this is unknown".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trainproof.checkpoints.dtypes import DTYPES
from trainproof.model.tensors import Safety

from .nodes import Call, Items, Node, Pairs, Persistent, path_of
from .walker import EXTENSION, Walked

Object = Items | Pairs | Call | Persistent
"""What has other nodes inside."""

STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexHalfStorage": "complex32",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QUInt8Storage": "quint8",
    "QInt8Storage": "qint8",
    "QInt32Storage": "qint32",
    "UntypedStorage": "uint8",
}
"""Element type of each storage class of torch. An untyped one is bytes."""

_UNREAD_STORAGES = ("QUInt4x2Storage", "QUInt2x4Storage", "TypedStorage")

_UNTYPED = ("UntypedStorage", "TypedStorage")
"""Not classes of ``torch`` but of ``torch.storage``, for the restricted loader."""

_REFUSED = (*_UNTYPED, "ComplexHalfStorage")
"""Storages that the restricted loader does not take from ``torch``."""

_TYPES = (
    *("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"),
    *("ComplexFloat", "ComplexDouble"),
)
_TENSORS = frozenset(
    f"torch.{place}{kind}Tensor"
    for place in ("", "cuda.", "sparse.", "cuda.sparse.")
    for kind in _TYPES[:10]
    if kind != "Bool" or "sparse" not in place
)
"""Classes of tensors by type, which files of old versions name."""

_REBUILD = (
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_rebuild_parameter",
    "_rebuild_parameter_with_state",
    "_rebuild_qtensor",
    "_rebuild_sparse_tensor",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_nested_tensor",
    "_rebuild_wrapper_subclass",
    "_rebuild_device_tensor_from_numpy",
    "_rebuild_device_tensor_from_cpu_tensor",
)

_SMALL_INTEGERS = tuple(f"torch.{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8))

WEIGHTS_ONLY = frozenset(
    {
        *(f"torch._utils.{name}" for name in _REBUILD),
        *(f"torch.{name}" for name in DTYPES),
        *(f"torch.{name}" for name in (*STORAGES, *_UNREAD_STORAGES) if name not in _REFUSED),
        *(f"torch.cuda.{kind}Storage" for kind in _TYPES),
        *_TENSORS,
        *_SMALL_INTEGERS,
        *(f"torch.storage.{name}" for name in _UNTYPED),
        *(f"torch.{name}" for name in ("quint4x2", "quint2x4", "float4_e2m1fn_x2")),
        *(
            f"torch.per_{what}_{how}"
            for what in ("tensor", "channel")
            for how in ("affine", "symmetric")
        ),
        "torch.per_channel_affine_float_qparams",
        "torch.Size",
        "torch.Tensor",
        "torch.device",
        "torch._tensor._rebuild_from_type_v2",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
        "collections.OrderedDict",
        "collections.Counter",
        "_codecs.encode",
        "builtins.bytearray",
        "builtins.set",
        "builtins.complex",
    }
)
"""What ``torch.load(weights_only=True)`` accepts without being told to.

Source: ``torch/_weights_only_unpickler.py``, ``_get_allowed_globals``.
"""

_ARRAYS = {
    *(
        f"numpy{core}.multiarray.{name}"
        for core in (".core", "._core")
        for name in ("_reconstruct", "scalar")
    ),
    *(f"numpy{core}.numeric._frombuffer" for core in (".core", "._core")),
    *(f"numpy.{name}" for name in ("ndarray", "dtype")),
}

INERT = frozenset(
    {
        *WEIGHTS_ONLY,
        *_ARRAYS,
        *(
            f"builtins.{name}"
            for name in (
                *("list", "dict", "tuple", "int", "float", "str", "bool", "bytes", "object"),
                *("frozenset", "slice", "range", "Ellipsis", "long", "unicode", "xrange"),
            )
        ),
        *(f"torch.{name}" for name in _REFUSED),
        *(f"torch.sparse_{kind}" for kind in ("coo", "csr", "csc", "bsr", "bsc")),
        "torch.strided",
        "torch.nn.parameter.Buffer",
        "torch._utils._rebuild_sparse_csr_tensor",
        "collections.defaultdict",
        "collections.deque",
        "copyreg._reconstructor",
        "joblib.numpy_pickle.NumpyArrayWrapper",
        "argparse.Namespace",
        "pathlib.Path",
        "pathlib.PosixPath",
        "pathlib.PurePosixPath",
        "pathlib.WindowsPath",
        "pathlib.PureWindowsPath",
        "datetime.datetime",
        "datetime.date",
        "datetime.timedelta",
        "datetime.timezone",
        "torch._tensor._rebuild_from_type",
        "torch.tensor._rebuild_from_type",
        "torch.tensor._rebuild_from_type_v2",
        "torch._utils._rebuild_xla_tensor",
        "torch.distributed.tensor.DTensor",
        "torch.distributed.tensor._api.DTensor",
        "torch.distributed._tensor.api.DTensor",
        "torch.distributed.tensor._dtensor_spec.DTensorSpec",
        "torch.distributed.tensor._dtensor_spec.TensorMeta",
        "torch.distributed.tensor.placement_types.Replicate",
        "torch.distributed.tensor.placement_types.Shard",
        "torch.distributed.tensor.placement_types.Partial",
        "torch.distributed.tensor._dtensor_spec.ShardOrderEntry",
        "torch.distributed.device_mesh.DeviceMesh",
        "torch.distributed._mesh_layout._MeshLayout",
        "torch.distributed._mesh_layout._FlatLayout",
        "torch.nested._internal.nested_tensor.NestedTensor",
        "torch.nested._internal.nested_tensor._rebuild_njt",
        "torch._dynamo.decorators._DimRange",
        *(
            f"torch.distributed.checkpoint.metadata.{name}"
            for name in (
                "Metadata",
                "MetadataIndex",
                "TensorStorageMetadata",
                "BytesStorageMetadata",
                "ChunkStorageMetadata",
                "TensorProperties",
                "StorageMeta",
                "_MEM_FORMAT_ENCODING",
            )
        ),
        "torch.distributed.checkpoint.filesystem._StorageInfo",
        "torch.distributed.checkpoint.filesystem._StoragePrefix",
    }
)

_INERT_FAMILY = re.compile(
    r"torch\.nn\.modules\.[a-z]+\.[A-Z][A-Za-z0-9]*"
    r"|torch\.jit\._pickle\.(restore_type_tag|build_(int|double|bool|tensor)list)"
    r"|__torch__\..+"
    r"|transformers\.training_args(_seq2seq)?\.(Seq2Seq)?TrainingArguments"
    r"|transformers\.training_args\.(OptimizerNames|ParallelMode)"
    r"|transformers\.trainer_utils\.[A-Z][A-Za-z]*(Strategy|Type|Option)"
    r"|transformers\.trainer_pt_utils\.AcceleratorConfig"
    r"|transformers\.integrations\.deepspeed\.Hf(Trainer)?DeepSpeedConfig"
    r"|accelerate\.state\.PartialState"
    r"|accelerate\.utils\.dataclasses\.[A-Z][A-Za-z]*(Type|Plugin|Config)"
    r"|trl\.trainer\.[a-z_]+_config\.[A-Z][A-Za-z]*Config"
    r"|(lightning\.fabric\.utilities\.data|pytorch_lightning\.utilities\.parsing)\.AttributeDict"
    r"|omegaconf\.(dictconfig\.DictConfig|listconfig\.ListConfig|base\.(Container)?Metadata)"
    r"|omegaconf\.nodes\.[A-Z][A-Za-z]*Node|typing\.Any"
    r"|numpy\.random\._pickle\.__(randomstate|generator|bit_generator)_ctor"
    r"|numpy\.random\.(_mt19937\.MT19937|_pcg64\.PCG64(DXSM)?|_philox\.Philox|_sfc64\.SFC64)"
    r"|numpy\.random\.bit_generator\.(__pyx_unpickle_)?SeedSequence"
    r"|numpy\.(bool_?|(u?int|float|complex)[0-9]+)"
    r"|sklearn\.(?!externals|datasets|utils\._test)[a-z_.]+\._?[A-Z][A-Za-z0-9]*"
)
"""Layers of torch itself: classes, whose state is set without calling them. What TorchScript
calls its own types: they exist in no module that a pickle could import. Settings and enumerations
that the trainers of transformers, accelerate, TRL and Lightning save beside the weights: plain
data, of whose classes none runs what it is given. Numbers and states of the generators of NumPy,
and the estimators of scikit-learn, whose constructors only keep what they are given."""

_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg", "cPickle": "pickle"}
"""Modules that unpicklers look for under another name in old protocols."""

_DANGEROUS_MODULES = frozenset(
    re.findall(
        r"\w+",
        """
    os posix nt sys subprocess socket shutil runpy pty webbrowser importlib imp ctypes _ctypes cffi
    pip code codeop bdb pdb cProfile profile trace timeit doctest asyncio multiprocessing threading
    concurrent operator _operator functools types marshal pickle _pickle dill cloudpickle
    pkgutil platform urllib http ftplib smtplib telnetlib xmlrpc ssl tempfile uuid idlelib logging
    inspect ast commands signal gc weakref linecache site sysconfig venv zipimport zipfile tarfile
    distutils setuptools ensurepip lib2to3 test atexit builtins __builtin__
    """,
    )
)
"""Modules with functions that run code, start programs or reach files and networks."""

_DANGEROUS = re.compile(
    r"numpy\.(testing|f2py|distutils)\b|joblib\.(numpy_pickle\.)?load\b|torch\.(hub|jit|package|utils|load|_inductor"
    r"|fx|serialization|multiprocessing|distributed\.rpc|storage\._load_from_bytes)\b"
)


def classify(module: str, name: str) -> Safety:
    """What importing and calling it can do."""
    module = _PYTHON_2.get(module, module)
    path = f"{module}.{name}"
    if path in INERT or _INERT_FAMILY.fullmatch(path):
        return Safety.SAFE
    if module.split(".", 1)[0] in _DANGEROUS_MODULES or _DANGEROUS.match(path):
        return Safety.UNSAFE
    # A name with a dot is an attribute of an attribute, which no class of a module needs.
    return Safety.UNSAFE if module == EXTENSION or "." in name else Safety.UNKNOWN


_WEIGHTS_ONLY_CODES = frozenset(b"c\x81RbaesuU(t)\x85\x86\x87N\x89\x88]}\x8fJKMGXQhjqr\x8a\x80.")
"""Opcodes that torch's restricted unpickler knows (the function ``load`` of the same file)."""

_BUILDS = ("collections.OrderedDict", "torch.Tensor", "torch.nn.parameter.Parameter")


def loads_weights_only(walked: Walked, objects: Iterable[Object]) -> bool:
    """Whether ``torch.load(weights_only=True)`` would accept the pickle.

    ``objects``: all that are part of its result.
    """
    if walked.damage is not None or not walked.opcodes <= _WEIGHTS_ONLY_CODES:
        return False
    if not all(_PYTHON_2.get(m, m) + "." + name in WEIGHTS_ONLY for m, name in walked.globals):
        return False
    return all(_accepted(one) for one in objects)


def _accepted(one: Object) -> bool:
    if isinstance(one, Persistent):
        return storage_key(one) is not None
    if not isinstance(one, Call) or not one.states:
        return True
    path = path_of(one.function) or ""
    return path in _BUILDS or path.startswith("torch._utils._rebuild_")


def storage_key(reference: Persistent) -> str | None:
    """The key of the storage that is referred to, None where it is no storage."""
    parts = reference.id.values if isinstance(reference.id, Items) else []
    if len(parts) < 5 or parts[0] != "storage" or not isinstance(parts[2], str | int):
        return None
    return str(parts[2])


def objects_in(root: Node, limit: int) -> Iterator[Object]:
    """Every container in the graph, each once; at most ``limit`` of them are visited."""
    seen: set[int] = set()
    stack: list[Node] = [root]
    while stack and len(seen) < limit:
        node = stack.pop()
        if not isinstance(node, Object) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack.extend(_below(node))


def _below(node: Object) -> Iterable[Node]:
    match node:
        case Items():
            return node.values
        case Pairs():
            return [one for pair in node.values for one in pair]
        case Persistent():
            return (node.id,)
        case Call():
            inside = [one for pair in node.pairs for one in pair]
            return [node.function, node.arguments, *node.states, *node.items, *inside]
