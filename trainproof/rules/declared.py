"""Checkpoints against what their own configuration says of them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from trainproof.model.checkpoint import Checkpoint, SavedFile
from trainproof.model.outcome import Evidence, Level, Outcome, Value, Where
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tensors import (
    CheckpointDirectory,
    DirectoryKind,
    Extent,
    Group,
    TensorInfo,
)

from .interface import Example, rule
from .saved import FLOATS, UNREAD, Saved, named, settle, unopened
from .saved_examples import adapter, pretrained, saved, tensor

_CONFIG, _ADAPTER = "config.json", "adapter_config.json"
_WEIGHTS = (".safetensors", ".bin")


class _Declared(msgspec.Struct, frozen=True):
    """A set, what its configuration says, and the tensors of its model."""

    directory: CheckpointDirectory
    said: dict[str, int | float | bool | str]
    tensors: tuple[TensorInfo, ...]

    def number(self, *keys: str) -> int | None:
        """The first of these keys that has an integer."""
        found = (self.said.get(key) for key in keys)
        return next((value for value in found if type(value) is int), None)

    def text(self, *keys: str) -> str | None:
        found = (self.said.get(key) for key in keys)
        return next((value for value in found if isinstance(value, str)), None)

    @property
    def plain(self) -> bool:
        """Whether the configuration describes the tensors as they are: one language model of the
        library's own code, not quantised."""
        special = ("quantization_config", "auto_map", "text_config", "vision_config")
        causal = (self.text("architectures/0") or "").endswith("ForCausalLM")
        return causal and not any(key in self.said for key in special)

    @property
    def place(self) -> Where:
        return Where(next(iter(self.directory.files), self.directory.path))


def _declared(checkpoint: Checkpoint, kind: DirectoryKind, document: str) -> Iterator[_Declared]:
    """Sets of this kind of which every file was opened."""
    by_path = {file.facts.artifact: file for file in checkpoint.files}
    for one in checkpoint.directories:
        paths = [path for path in one.files if path.endswith(_WEIGHTS)]
        files = [by_path[path] for path in paths if path in by_path]
        open = all(file.facts.extent is not Extent.NOT_CHECKED for file in files)
        if one.kind is kind and one.said and files and open and len(files) == len(paths):
            prefix = f"{document}/"
            said = {scalar.name.removeprefix(prefix): scalar.value for scalar in one.said}
            yield _Declared(one, said, tuple(_model(files)))


def _model(files: Iterable[SavedFile]) -> Iterator[TensorInfo]:
    for file in files:
        yield from (one for one in file.tensors if one.group is Group.MODEL)


def _settled(checkpoint: Checkpoint, found: Iterable[Evidence], looked: int) -> Outcome:
    measured: dict[str, Value] = {"sets": looked}
    return settle(checkpoint, found, measured, unopened(checkpoint), there=looked > 0)


# --- the configuration of a model ---------------------------------------------------------------

_EMBEDDING = re.compile(
    r"(.*\.)?(embed_tokens|wte|word_embeddings|tok_embeddings|embed_in)\.weight"
)
_HEAD = re.compile(r"(.*\.)?(lm_head|embed_out|output|output_layer|head|score)\.weight")
_LAYER = re.compile(r"(?:model|transformer|gpt_neox)\.(?:layers|h|blocks)\.(\d+)\..+")
_LONGEST = 10_000
_WIDTHS = ("hidden_size", "n_embd", "d_model")


@rule(
    id="TP-CKPT-CONFIG",
    title="The weights are not those of the configuration",
    level=Level.FAIL,
    message="The weights in {directory} do not fit its config.json: {detail}.",
    evidence="It says {key} = {said:,}; the weights have {held:,}.",
    needs={"checkpoint": Saved()},
    measures={
        "sets": "directories of a model with its configuration",
        "directory": "directory of the model",
        "detail": "what does not fit",
        "key": "the key of the configuration",
        "said": "the number that it says",
        "held": "the number that the weights have",
        "held_type": "the type of most bytes of the floating-point weights",
        "said_type": "the type that the configuration says",
        "share": "share of the bytes that have this type",
        **UNREAD,
    },
    variants={
        "dtype": Variant(
            Level.WARN,
            "The weights in {directory} are mostly {held_type}, and its config.json says"
            " {said_type}.",
            "{share:.0%} of the bytes of its floating-point weights are {held_type}.",
        )
    },
    doc=Doc(
        measures="Rows of the embedding against vocab_size, numbered layers against"
        " num_hidden_layers, and the type of most bytes against dtype (torch_dtype).",
        means="Loading stops, or fills the missing layers with random numbers, which"
        " transformers only logs.",
        does_not_mean="That the weights are wrong: the configuration may be that of another model.",
        guards=(
            "Only causal language models of the library's own code, not quantised, without parts"
            " for text and vision.",
            "More layers than the configuration says are left out: they may predict more tokens.",
            "An embedding is one by its name and its width; rows of several are not compared.",
            "Another type is a WARN: the loader converts it.",
        ),
        references=(
            "peft #2415; unsloth #978, #237: sizes of embeddings that do not fit",
            "transformers #33780; llama-cookbook #289: saved as float32, declared as bfloat16",
        ),
    ),
    fires=Example("an embedding of other size", pretrained(rows=90)),
    silent=Example("weights that fit", pretrained()),
    subject=SubjectKind.CHECKPOINT,
)
def config(checkpoint: Checkpoint) -> Outcome:
    models = list(_declared(checkpoint, DirectoryKind.PRETRAINED, _CONFIG))
    found = [one for model in models for one in _misfits(model)]
    return _settled(checkpoint, found, len(models))


def _misfits(model: _Declared) -> Iterator[Evidence]:
    if model.plain:
        yield from _rows(model)
        yield from _missing_layers(model)
    yield from _types(model)


def _misfit(model: _Declared, key: str, said: int, held: int, detail: str) -> Evidence:
    measured: dict[str, Value] = {
        "sets": 1,
        "directory": model.directory.path or ".",
        "detail": detail,
        "key": key,
        "said": said,
        "held": held,
    }
    return Evidence(model.place, measured)


def _embeddings(model: _Declared) -> list[TensorInfo]:
    width = model.number(*_WIDTHS)
    return [
        one
        for one in model.tensors
        if _EMBEDDING.fullmatch(one.name) and (one.shape or ())[1:] == (width,)
    ]


def _rows(model: _Declared) -> Iterator[Evidence]:
    said, embeddings = model.number("vocab_size"), _embeddings(model)
    if said is None or len(embeddings) != 1 or embeddings[0].shape is None:
        return
    rows = embeddings[0].shape[0]
    if rows != said:
        detail = f"{embeddings[0].name} has {rows} rows"
        yield _misfit(model, "vocab_size", said, rows, detail)


def _missing_layers(model: _Declared) -> Iterator[Evidence]:
    said = model.number("num_hidden_layers", "n_layer")
    held = {int(m[1]) for one in model.tensors if (m := _LAYER.fullmatch(one.name))}
    if said is None or not held or said > _LONGEST:
        return
    absent = [number for number in range(said) if number not in held]
    if absent:
        detail = f"layers are missing: {named(map(str, absent))}"
        yield _misfit(model, "num_hidden_layers", said, said - len(absent), detail)


def _types(model: _Declared) -> Iterator[Evidence]:
    """By bytes, among the types of floating-point numbers that a model is declared in."""
    said = (model.text("dtype", "torch_dtype") or "").removeprefix("torch.")
    sizes: Counter[str] = Counter()
    for one in model.tensors:
        if one.dtype.startswith(FLOATS):
            sizes[one.dtype] += one.nbytes
    if said not in _DECLARED or not sizes or "quantization_config" in model.said:
        return
    held, most = sizes.most_common(1)[0]
    if held != said and held in _DECLARED:
        measured: dict[str, Value] = {
            "sets": 1,
            "directory": model.directory.path or ".",
            "held_type": held,
            "said_type": said,
            "share": most / sizes.total(),
        }
        yield Evidence(model.place, measured, "dtype")


_DECLARED = ("float32", "float16", "bfloat16", "float64")


@rule(
    id="TP-CKPT-HEAD",
    title="The output layer is missing",
    level=Level.WARN,
    message="The weights in {directory} have no output layer, and its config.json does not tie it"
    " to the embedding.",
    evidence="tie_word_embeddings is false, and of {tensors:,} {tensors:tensor|tensors} only the"
    " embedding has {rows:,} {rows:row|rows}.",
    needs={"checkpoint": Saved()},
    measures={
        "sets": "directories of a causal language model with its configuration",
        "directory": "directory of the model",
        "tensors": "tensors of the model",
        "rows": "rows of the embedding",
        **UNREAD,
    },
    doc=Doc(
        measures="Whether any tensor beside the embedding has a row for each token.",
        means="The loader fills the output layer with random numbers and only logs it.",
        does_not_mean="That the layer was never trained: a saver drops what it takes for tied.",
        guards=(
            "Only where the configuration says tie_word_embeddings: false in so many words.",
            "Only causal language models of the library's own code, not quantised.",
            "A tensor of any name counts, if it has as many rows as the embedding.",
        ),
        references=(
            "transformers #30202, #38870: tied heads that were dropped",
            "torchtitan #3764: a tied key without data",
        ),
    ),
    fires=Example("no head", pretrained(head=False)),
    silent=Example("a head of its own", pretrained()),
    subject=SubjectKind.CHECKPOINT,
)
def head(checkpoint: Checkpoint) -> Outcome:
    models = [
        model
        for model in _declared(checkpoint, DirectoryKind.PRETRAINED, _CONFIG)
        if model.plain and len(_embeddings(model)) == 1
    ]
    found = []
    for model in models:
        (embedding,) = _embeddings(model)
        rows = (embedding.shape or (0,))[0]
        others = [
            one
            for one in model.tensors
            if one is not embedding
            and (
                _HEAD.fullmatch(one.name)
                or (len(one.shape or ()) > 1 and rows in (one.shape or ()))
            )
        ]
        if model.said.get("tie_word_embeddings") is False and not others:
            measured: dict[str, Value] = {
                "sets": 1,
                "directory": model.directory.path or ".",
                "tensors": len(model.tensors),
                "rows": rows,
            }
            found.append(Evidence(model.place, measured))
    return _settled(checkpoint, found, len(models))


# --- adapters -----------------------------------------------------------------------------------

_LORA = re.compile(r"(?P<module>.+)\.lora_(?P<side>[AB]|down|up)(?:\.(?P<adapter>[^.]+))?\.weight")
_SIDES = {"A": "A", "down": "A", "B": "B", "up": "B"}


@rule(
    id="TP-CKPT-ADAPTER",
    title="The matrices of an adapter do not fit together",
    level=Level.FAIL,
    message="{bad:,} of {pairs:,} {pairs:module|modules} of the adapter in {artifact}"
    " {bad:does|do} not fit: {detail}.",
    evidence="The first is {names}.",
    needs={"checkpoint": Saved()},
    measures={
        "pairs": "modules that have a LoRA A or B matrix",
        "bad": "of these, those that do not fit",
        "detail": "what is wrong with the first",
        "names": "the first of them",
        "size": "bytes of the file",
        **UNREAD,
    },
    variants={
        "partner": Variant(
            Level.WARN,
            "{bad:,} of {pairs:,} {pairs:module|modules} of the adapter in {artifact}"
            " {bad:has|have} only one of {bad:its|their} two matrices: {detail}.",
            "The first is {names}; the loader fills the other one as at the start.",
        ),
        "none": Variant(
            Level.FAIL,
            "{artifact} holds no tensor: the adapter was saved without its weights.",
            "It has {size:,} {size:byte|bytes}.",
        ),
        "rank": Variant(
            Level.FAIL,
            "{bad:,} of {pairs:,} {pairs:module|modules} of the adapter in {artifact}"
            " {bad:has|have} another rank than adapter_config.json says: {detail}.",
            "The first is {names}; loading stops at it.",
        ),
    },
    doc=Doc(
        measures="The shapes of LoRA A (rank x inputs) and B (outputs x rank) of each module, and"
        " their rank against r of adapter_config.json.",
        means="Loading stops, or the module is silently left as it was.",
        does_not_mean="That the base model is damaged.",
        guards=(
            "Matrices of two dimensions only: convolutions and embeddings are laid out otherwise.",
            "Where the configuration has a rank_pattern or target_parameters, or is none of LoRA,"
            " ranks are not compared with it.",
        ),
        references=(
            "peft documentation, checkpoint format: lora_A and lora_B of each module",
            "Chinese-LLaMA-Alpaca #711, transformers #24551: adapters without their tensors",
        ),
    ),
    fires=Example("matrices of different rank", adapter((4, 16), (16, 8))),
    silent=Example("matrices that fit", adapter((8, 16), (16, 8))),
    subject=SubjectKind.CHECKPOINT,
)
def adapter_pairs(checkpoint: Checkpoint) -> Outcome:
    found, looked = [], 0
    ranks = list(_ranks(checkpoint))
    for file in checkpoint.files:
        pairs = _pairs(file)
        looked += len(pairs)
        own = next((rank for files, rank in ranks if file.facts.artifact in files), None)
        for variant, problems in _problems(pairs, own):
            if problems:
                module, detail = problems[0]
                measured: dict[str, Value] = {
                    "pairs": len(pairs),
                    "bad": len(problems),
                    "detail": detail,
                    "names": module,
                }
                found.append(Evidence(Where(file.facts.artifact), measured, variant))
        if _is_hollow(file):
            size: dict[str, Value] = {"size": file.facts.size}
            found.append(Evidence(Where(file.facts.artifact), size, "none"))
            looked += 1
    measured = {"pairs": looked}
    return settle(checkpoint, found, measured, unopened(checkpoint), there=looked > 0)


def _is_hollow(file: SavedFile) -> bool:
    """Whether it is named as an adapter's weights, was read, and has none."""
    named_so = file.facts.artifact.rpartition("/")[2].startswith("adapter_model.")
    return named_so and file.facts.extent is Extent.READ and not file.tensors


_Sides = dict[str, tuple[int, ...]]


def _pairs(file: SavedFile) -> dict[str, _Sides]:
    """By module, the shapes of its two matrices."""
    pairs: defaultdict[str, _Sides] = defaultdict(dict)
    for one in file.tensors:
        match = _LORA.fullmatch(one.name.replace("/", "."))
        if match and len(one.shape or ()) == 2 and one.shape is not None:
            name = (
                f"{match['module']} ({match['adapter']})" if match["adapter"] else match["module"]
            )
            pairs[name][_SIDES[match["side"]]] = one.shape
    return pairs


def _ranks(checkpoint: Checkpoint) -> Iterator[tuple[tuple[str, ...], int]]:
    """Files of an adapter, and the one rank that its configuration gives them."""
    for one in _declared(checkpoint, DirectoryKind.ADAPTER, _ADAPTER):
        rank = one.number("r")
        patterns = any(key.startswith("target_parameters") for key in one.said)
        lora = one.text("peft_type") == "LORA"
        simple = lora and not patterns and not one.said.get("rank_pattern")
        if rank is not None and simple:
            yield one.directory.files, rank


def _problems(
    pairs: dict[str, _Sides], rank: int | None
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """By variant, modules and what is wrong with each."""
    whole = {module: sides for module, sides in pairs.items() if len(sides) == 2}
    yield (
        "",
        [
            (module, f"A has rank {sides['A'][0]} and B has rank {sides['B'][1]}")
            for module, sides in whole.items()
            if sides["A"][0] != sides["B"][1]
        ],
    )
    yield (
        "partner",
        [
            (module, f"{'B' if 'A' in sides else 'A'} is missing")
            for module, sides in pairs.items()
            if len(sides) == 1
        ],
    )
    fitting = {m: s["A"][0] for m, s in whole.items() if s["A"][0] == s["B"][1]}
    wrong = [(m, f"{held}, not {rank}") for m, held in fitting.items() if held != rank]
    yield "rank", wrong if rank is not None else []


# --- prefixes -----------------------------------------------------------------------------------

_WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_forward_module.")


@rule(
    id="TP-CKPT-PREFIX",
    title="Names of weights carry the name of a wrapper",
    level=Level.INFO,
    message="The {tensors:name of the only weight|names of all {tensors:,} weights} in {artifact}"
    " {tensors:begins|begin} with a wrapper: {prefix}.",
    evidence="The first is {names}; a model that is not wrapped finds none of its own.",
    needs={"checkpoint": Saved()},
    measures={
        "tensors": "weights of the file",
        "prefix": "what their names begin with",
        "names": "the first of them",
        **UNREAD,
    },
    doc=Doc(
        measures="The beginning of each weight's name, below the key that holds them all.",
        means="The model was saved inside of what trains it: DistributedDataParallel (module.),"
        " torch.compile (_orig_mod.), FSDP. load_state_dict refuses it, and with strict=False it"
        " loads nothing and says nothing.",
        does_not_mean="That a weight is wrong: the names need only be shortened.",
        guards=(
            "Only names that wrappers of torch and Lightning give.",
            "All names must begin so: a model may have a part that is called module.",
        ),
        references=(
            "nanoGPT #325: _orig_mod.; train-llm-from-scratch #36: 163 keys silently random",
            "pytorch documentation, DistributedDataParallel: saving and loading",
        ),
    ),
    fires=Example("a wrapped model", saved(tensor("module.fc.weight"), tensor("module.fc.bias"))),
    silent=Example("a model", saved(tensor("fc.weight"), tensor("fc.bias"))),
    subject=SubjectKind.CHECKPOINT,
)
def prefix(checkpoint: Checkpoint) -> Outcome:
    found, looked = [], 0
    for file in checkpoint.files:
        names = [one.name.rpartition("/")[2] for one in _model([file])]
        looked += len(names)
        for wrapper in _WRAPPERS:
            if names and all(name.startswith(wrapper) for name in names):
                measured: dict[str, Value] = {
                    "tensors": len(names),
                    "prefix": wrapper.rstrip("."),
                    "names": names[0],
                }
                found.append(Evidence(Where(file.facts.artifact), measured))
    unread = unopened(checkpoint)
    return settle(checkpoint, found, {"tensors": looked}, unread, there=looked > 0)
