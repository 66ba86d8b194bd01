"""From the root of a pickle to everything that it holds, by name. A loop, not a recursion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainproof.model.tensors import (
    MAX_STEPS,
    Defect,
    DefectCode,
    Kind,
    Number,
    OptimizerState,
    Safety,
    Scalar,
    Unread,
)

from .limits import LIMITS, Limits
from .pickles.allowlist import classify
from .pickles.nodes import Call, Global, Items, Node, Pairs, Persistent, arguments, path_of
from .torch_objects import (
    JOBLIB_ARRAY,
    Contents,
    NotRead,
    Tensor,
    Tensors,
    joblib_tensor,
    numpy_array,
)
from .views import BadLayout

_MAPPINGS = ("collections.OrderedDict", "collections.defaultdict", "collections.Counter")
_ARRAYS = ("multiarray._reconstruct", "numeric._frombuffer")
_MANY = 100_000
"""A longer list without containers in it is data of some other kind, not a training state."""

_Place = tuple[str, int, Node]
"""Name, depth and record of an object that is still to be visited."""


def contents_of(root: Node, limits: Limits = LIMITS) -> Contents:
    """Tensors, numbers and optimizers below ``root``; what is not read is listed with it."""
    collector = _Collector(limits)
    collector.run(root)
    return collector.contents


class _Collector:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.contents = Contents()
        self.tensors = Tensors(self.contents, limits)
        self.names: dict[int, int] = {}
        """How many names each container has got so far."""

    def run(self, root: Node) -> None:
        self.contents.keys = tuple(key for key, _ in _mapping_items(root))[: self.limits.scalars]
        stack: list[_Place] = [("", 0, root)]
        room = self.limits.characters
        for _ in range(self.limits.visits):
            if not stack:
                return
            name, depth, node = stack.pop()
            below = list(self._visit(name, node))
            if below and depth >= self.limits.depth:
                self._unread(name, f"nested more than {self.limits.depth} levels deep")
                continue
            room -= len(below) * len(name)
            if room < 0:
                break
            below.reverse()
            stack.extend((_join(name, key), depth + 1, value) for key, value in below)
        self._unread("", "more objects than the limit")

    def _visit(self, name: str, node: Node) -> Iterable[tuple[str, Node]]:
        """Record one object; what is to be visited below it, by key."""
        match node:
            case Call():
                return self._call(name, node)
            case Pairs():
                return self._mapping(name, node) if self._enter(node) else ()
            case Items():
                return _elements(node) if self._enter(node) else ()
            case Persistent():
                self._storage(name, node)
            case _:
                self._scalar(name, node)
        return ()

    def _enter(self, node: Node) -> bool:
        """A container is entered under its first name only: sharing makes graphs explode."""
        seen = self.names.get(id(node), 0)
        self.names[id(node)] = seen + 1
        return seen == 0

    # --- values ---

    def _scalar(self, name: str, node: Node) -> None:
        if isinstance(node, int | float) and name.endswith("/step"):
            self.contents.steps.setdefault(name, []).append(node)
        if isinstance(node, bool | int | float | str) and self._has_room():
            value = node[: self.limits.value] if isinstance(node, str) else node
            self.contents.scalars.append(Scalar(name, value))

    def _has_room(self) -> bool:
        return len(self.contents.scalars) < self.limits.scalars

    def _storage(self, name: str, node: Persistent) -> None:
        try:
            storage, _ = self.tensors.storage(node)
            view = self.tensors.view([node, 0, Items("tuple", [storage.count]), _ONE])
        except NotRead as why:
            self._unread(name, str(why))
        except BadLayout as why:
            self._defect(DefectCode.TENSOR_LAYOUT, str(why), name)
        else:
            made = Tensor(storage.dtype, (storage.count,), Kind.STORAGE, view.views)
            self.contents.tensors[name] = made

    # --- calls ---

    def _call(self, name: str, call: Call) -> Iterable[tuple[str, Node]]:
        path = path_of(call.function) or ""
        try:
            tensor = self.tensors.tensor(call)
            if tensor is None and path.startswith("numpy") and path.endswith(_ARRAYS):
                tensor = numpy_array(call)
            elif tensor is None and path == JOBLIB_ARRAY:
                tensor = joblib_tensor(call)
        except NotRead as why:
            self._unread(name, f"{path}: {why}")
            return ()
        except BadLayout as why:
            self._defect(DefectCode.TENSOR_LAYOUT, str(why), name)
            return ()
        if tensor is not None:
            return self._tensor(name, tensor, call)
        return self._object(name, path, call) if self._enter(call) else ()

    def _tensor(self, name: str, tensor: Tensor, call: Call) -> Iterable[tuple[str, Node]]:
        """The same tensor under another name is listed again: that is how weights are tied."""
        seen = self.names.get(id(call), 0)
        self.names[id(call)] = seen + 1
        if seen < self.limits.names:
            self.contents.tensors[name] = tensor
        if any(view.times > 1 and view.elements > view.capacity for view in tensor.views):
            what = "it repeats the elements of a smaller storage"
            self._defect(DefectCode.TENSOR_EXPANDED, what, name)
        return ()

    def _object(self, name: str, path: str, call: Call) -> Iterable[tuple[str, Node]]:
        if path in _MAPPINGS:
            return self._mapping(name, Pairs(_mapping_pairs(call)))
        function = call.function
        known = isinstance(function, Global) and classify(function.module, function.name)
        if known is not Safety.SAFE:
            self._unread(name, f"an object of {path or 'a class that is not named'}")
        return self._attributes(call)

    def _attributes(self, call: Call) -> Iterator[tuple[str, Node]]:
        for number, argument in enumerate(arguments(call)):
            if isinstance(argument, Items | Pairs | Call | Persistent):
                yield f".argument{number}", argument
        for key, value in call.pairs:
            yield self._key(key), value
        for number, value in enumerate(call.items):
            yield str(number), value
        for state in _states(call):
            if isinstance(state, Pairs):
                yield from (("." + self._key(key), value) for key, value in state.values)
            elif isinstance(state, Items | Call):
                yield ".state", state

    # --- mappings ---

    def _mapping(self, name: str, node: Pairs) -> list[tuple[str, Node]]:
        items = [(self._key(key), value) for key, value in node.values]
        last = dict(items)
        if len(last) != len(items):
            what = f"{len(items) - len(last)} keys occur again: the last value counts"
            self._defect(DefectCode.DUPLICATE_KEY, what, name)
        if "state" in last and "param_groups" in last:
            self.contents.optimizers.append(_optimizer(name, last["state"], last["param_groups"]))
        return items

    def _key(self, key: Node) -> str:
        return _text(key)[: self.limits.label]

    # --- what is reported ---

    def _unread(self, name: str, why: str) -> None:
        if len(self.contents.unread) < self.limits.unread:
            self.contents.unread.append(Unread(name, why[: self.limits.label]))

    def _defect(self, code: DefectCode, detail: str, where: str) -> None:
        if len(self.contents.defects) < self.limits.defects:
            self.contents.defects.append(Defect(code, detail, where))


_ONE = Items("tuple", [1])


def _join(name: str, key: str) -> str:
    return f"{name}/{key}" if name else key


def _text(key: Node) -> str:
    if isinstance(key, bytes):
        return key.decode("latin-1")
    if isinstance(key, str | int | float | bool) or key is None:
        return str(key)
    return f"<{type(key).__name__.lower()}>"


def _elements(node: Items) -> Iterable[tuple[str, Node]]:
    values = node.values
    if len(values) > _MANY and not any(
        isinstance(value, Items | Pairs | Call | Persistent) for value in values
    ):
        return ()
    return [(str(number), value) for number, value in enumerate(values)]


def _states(call: Call) -> Iterator[Node]:
    """Arguments of BUILD; a pair of them is ``(__dict__, slots)``."""
    for state in call.states:
        if isinstance(state, Items) and state.kind == "tuple" and len(state.values) == 2:
            yield from state.values
        else:
            yield state


def _mapping_pairs(call: Call) -> list[tuple[Node, Node]]:
    """Items of an OrderedDict and its like: of its arguments, then those set one by one."""
    pairs: list[tuple[Node, Node]] = []
    for argument in arguments(call):
        if isinstance(argument, Pairs):
            pairs.extend(argument.values)
        elif isinstance(argument, Items):
            for pair in argument.values:
                if isinstance(pair, Items) and len(pair.values) == 2:
                    pairs.append((pair.values[0], pair.values[1]))
    return pairs + call.pairs


def _mapping_items(node: Node) -> list[tuple[str, Node]]:
    """Keys and values of a mapping of any kind, none for anything else."""
    if isinstance(node, Call) and path_of(node.function) in _MAPPINGS:
        node = Pairs(_mapping_pairs(node))
    return [(_text(key), value) for key, value in node.values] if isinstance(node, Pairs) else []


# --- optimizers -------------------------------------------------------------------------------


def _optimizer(name: str, state: Node, groups: Node) -> OptimizerState:
    """What its two parts list; the step counts are added once tensors are measured."""
    with_state = {key for key, _ in _mapping_items(state)}
    members = groups.values if isinstance(groups, Items) else []
    listed: set[str] = set()
    rates: list[float] = []
    for group in members:
        fields = dict(_mapping_items(group))
        params = fields.get("params")
        if isinstance(params, Items):
            listed.update(_text(value) for value in params.values)
        rate = fields.get("lr")
        if isinstance(rate, int | float):
            rates.append(float(rate))
    return OptimizerState(
        name,
        groups=len(members),
        parameters=len(listed),
        states=len(with_state),
        unlisted=len(with_state - listed),
        lrs=tuple(rates[:MAX_STEPS]),
    )


def distinct_steps(values: Iterable[Number]) -> tuple[Number, ...]:
    return tuple(sorted(set(values))[:MAX_STEPS])
