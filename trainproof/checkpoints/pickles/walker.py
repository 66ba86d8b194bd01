"""One loop over the opcodes of a pickle. Imports nothing, calls nothing, trusts no length.

Follows what CPython's unpickler would do, since that is what runs: operands are taken from the
simulated stack and memo, and a global counts from the moment its opcode runs, whether or not its
value is used. Where unpicklers are known to disagree (frames that lie) the pickle is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from trainproof.checkpoints.limits import LIMITS, Limits
from trainproof.checkpoints.source import Damage
from trainproof.model.data import FaultCode

from .nodes import Call, Global, Items, Large, Node, Pairs, Persistent, path_of


class _Mark:
    """What MARK puts on the stack."""


_MARK: Final = _Mark()
_Slot = Node | _Mark

EXTENSION = "copyreg.extension"
"""Stands for the module of a global that is named by a number of the loader's registry."""


class Walked(msgspec.Struct, frozen=True):
    """One pickle, as far as it could be followed.

    ``root`` is meaningful only without ``damage``. ``end``: the byte after STOP, or where it
    went wrong. ``globals``: each imported name once, in order, also before a damage. ``opcodes``:
    the codes used. ``leftover``: values on the stack under the root. ``overwrites``: names of the
    globals whose attributes or items the pickle sets.
    """

    root: Node
    end: int
    damage: Damage | None
    globals: tuple[tuple[str, str], ...]
    opcodes: frozenset[int]
    leftover: int
    overwrites: tuple[str, ...]


Raw = Callable[[Call, bytes, int], int]
"""Some formats put bytes between opcodes: what was just given its attributes, the data, and the
byte after the opcode; the byte at which the next opcode is. Raises Damage."""


def walk(data: bytes, at: int = 0, limits: Limits = LIMITS, raw: Raw | None = None) -> Walked:
    """The pickle that begins at byte ``at``, up to its STOP."""
    walker = _Walker(data, at, limits, raw)
    damage = None
    root: Node = None
    try:
        root = walker.run()
    except Damage as met:
        damage = met
    except struct.error:
        damage = walker.truncated()
    leftover = max(0, len(walker.stack) - 1)
    return Walked(
        root,
        walker.at,
        damage,
        tuple(walker.globals),
        frozenset(code for code, used in enumerate(walker.used) if used),
        leftover,
        tuple(walker.overwrites),
    )


_u16 = struct.Struct("<H").unpack_from
_u32 = struct.Struct("<I").unpack_from
_i32 = struct.Struct("<i").unpack_from
_u64 = struct.Struct("<Q").unpack_from
_f64 = struct.Struct(">d").unpack_from

_PROTO, _STOP, _FRAME = 0x80, 0x2E, 0x95
HIGHEST_PROTOCOL = 5


class _Walker:
    def __init__(self, data: bytes, at: int, limits: Limits, raw: Raw | None) -> None:
        self.data, self.at, self.limits, self.raw = data, at, limits, raw
        self.stack: list[_Slot] = []
        self.memo: dict[int, Node] = {}
        self.globals: dict[tuple[str, str], None] = {}
        self.overwrites: dict[str, None] = {}
        self.used = bytearray(256)
        self.nodes = 0
        self.frame_end: int | None = None

    def run(self) -> Node:
        """The value at STOP. Raises Damage, or struct.error where an operand is cut."""
        data, used, stack, stop = self.data, self.used, self.stack, len(self.data)
        most = self.limits.stack
        for _ in range(self.limits.ops):
            if self.frame_end is not None:
                self._check_frame()
            if self.at >= stop:
                raise self.truncated()
            code = data[self.at]
            self.at += 1
            used[code] = 1
            if code == _STOP:
                return self._top()
            handler = _HANDLERS[code]
            if handler is None:
                raise self._bad(f"the opcode 0x{code:02x} does not exist")
            handler(self)
            if len(stack) > most:
                raise self._too_large("stack")
        raise self._too_large("number of opcodes")

    # --- damage ---

    def truncated(self) -> Damage:
        return Damage(FaultCode.TRUNCATED, "the pickle ends before its STOP opcode")

    def _bad(self, what: str) -> Damage:
        return Damage(FaultCode.CORRUPT, f"{what} (at byte {self.at})")

    def _too_large(self, what: str) -> Damage:
        return Damage(FaultCode.TOO_LARGE, f"the {what} of the pickle is over the limit")

    # --- stack, memo, bytes ---

    def _pop(self) -> Node:
        if not self.stack:
            raise self._bad("a value is taken from an empty stack")
        value = self.stack.pop()
        if isinstance(value, _Mark):
            raise self._bad("a value is taken from behind a mark")
        return value

    def _top(self) -> Node:
        value = self.stack[-1] if self.stack else _MARK
        if isinstance(value, _Mark):
            raise self._bad("there is no value on the stack")
        return value

    def _to_mark(self) -> list[Node]:
        """The values above the topmost mark, which are removed with it."""
        stack = self.stack
        at = len(stack) - 1
        values: list[Node] = []
        while at >= 0:
            value = stack[at]
            if isinstance(value, _Mark):
                del stack[at:]
                values.reverse()
                return values
            values.append(value)
            at -= 1
        raise self._bad("there is no mark on the stack")

    def _push(self, value: Node) -> None:
        """A new container: these are what takes memory."""
        self.nodes += 1
        if self.nodes > self.limits.nodes:
            raise self._too_large("number of objects")
        self.stack.append(value)

    def _take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0:
            raise self._bad("a length is negative")
        if end > len(self.data):
            raise self.truncated()
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def _byte(self) -> int:
        if self.at >= len(self.data):
            raise self.truncated()
        value = self.data[self.at]
        self.at += 1
        return value

    def _number(self, unpack: Callable[[bytes, int], tuple[int, ...]], width: int) -> int:
        value = unpack(self.data, self.at)[0]
        self.at += width
        return value

    def _line(self) -> bytes:
        end = self.data.find(b"\n", self.at, self.at + self.limits.line)
        if end < 0:
            raise self.truncated()
        line = self.data[self.at : end]
        self.at = end + 1
        return line

    def _remember(self, index: int) -> None:
        self.memo[index] = self._top()
        if len(self.memo) > self.limits.memo:
            raise self._too_large("memo")

    def _recall(self, index: int) -> None:
        if index not in self.memo:
            raise self._bad(f"memo {index} was never set")
        self.stack.append(self.memo[index])

    def _index(self) -> int:
        line = self._line()
        if not line.isdigit() or len(line) > 10:
            raise self._bad("a memo index is no number")
        return int(line)

    # --- frames ---

    def _check_frame(self) -> None:
        if self.frame_end is None or self.at < self.frame_end:
            return
        if self.at > self.frame_end:
            raise self._bad("an opcode straddles the end of its frame")
        self.frame_end = None

    def frame(self) -> None:
        length = self._number(_u64, 8)
        if self.frame_end is not None:
            raise self._bad("a frame begins inside of a frame")
        if self.at + length > len(self.data):
            raise self._bad(f"a frame of {length} bytes runs past the end")
        self.frame_end = self.at + length

    def proto(self) -> None:
        version = self._byte()
        if version > HIGHEST_PROTOCOL:
            raise self._bad(f"the pickle protocol {version} does not exist")

    # --- globals and calls ---

    def _global(self, module: Node, name: Node) -> Global:
        if not isinstance(module, str) or not isinstance(name, str):
            raise self._bad("a global has a name that is not text")
        self.globals.setdefault((module, name))
        if len(self.globals) > self.limits.globals:
            raise self._too_large("number of globals")
        return Global(module, name)

    def _named(self) -> Global:
        module, name = (self._line().decode("utf-8", "replace") for _ in range(2))
        return self._global(module, name)

    def global_(self) -> None:
        self._push(self._named())

    def stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        self._push(self._global(module, name))

    def extension(self, width: int) -> None:
        code = int.from_bytes(self._take(width), "little")
        self._push(self._global(EXTENSION, str(code)))

    def reduce(self) -> None:
        given, function = self._pop(), self._pop()
        self._push(Call(function, given))

    def newobj_ex(self) -> None:
        keywords, given, function = self._pop(), self._pop(), self._pop()
        self._push(Call(function, Items("tuple", [given, keywords])))

    def inst(self) -> None:
        function = self._named()
        self._push(Call(function, Items("tuple", self._to_mark())))

    def obj(self) -> None:
        values = self._to_mark()
        if not values:
            raise self._bad("an object has no class")
        self._push(Call(values[0], Items("tuple", values[1:])))

    def build(self) -> None:
        state, target = self._pop(), self._top()
        if not isinstance(target, Call):
            raise self._misplaced("attributes are set on", target)
        target.states.append(state)
        if self.raw is not None:
            self._check_frame()
            self.at = self.raw(target, self.data, self.at)

    def _misplaced(self, what: str, target: Node) -> Damage:
        """Data written into something that is no fresh container: type confusion."""
        path = path_of(target)
        if path is not None:
            self.overwrites.setdefault(path)
        return self._bad(f"{what} {path or type(target).__name__}")

    # --- containers ---

    def tuple_(self) -> None:
        self._push(Items("tuple", self._to_mark()))

    def tuple_of(self, count: int) -> None:
        values = [self._pop() for _ in range(count)]
        values.reverse()
        self._push(Items("tuple", values))

    def list_(self) -> None:
        self._push(Items("list", self._to_mark()))

    def frozenset_(self) -> None:
        self._push(Items("frozenset", self._to_mark()))

    def dict_(self) -> None:
        self._push(Pairs(self._pairs()))

    def _pairs(self) -> list[tuple[Node, Node]]:
        values = self._to_mark()
        if len(values) % 2:
            raise self._bad("a mapping has a key without a value")
        return list(zip(values[::2], values[1::2], strict=True))

    def setitem(self) -> None:
        value, key = self._pop(), self._pop()
        self._set([(key, value)])

    def setitems(self) -> None:
        self._set(self._pairs())

    def _set(self, pairs: list[tuple[Node, Node]]) -> None:
        target = self._top()
        if isinstance(target, Pairs):
            target.values.extend(pairs)
        elif isinstance(target, Call):
            target.pairs.extend(pairs)
        else:
            raise self._misplaced("items are set on", target)

    def append(self) -> None:
        value = self._pop()
        self._extend([value])

    def appends(self) -> None:
        self._extend(self._to_mark())

    def _extend(self, values: list[Node]) -> None:
        target = self._top()
        if isinstance(target, Items) and target.kind in ("list", "set"):
            target.values.extend(values)
        elif isinstance(target, Call):
            target.items.extend(values)
        else:
            raise self._misplaced("values are appended to", target)

    def persistent(self) -> None:
        self._push(Persistent(self._pop()))

    def persistent_text(self) -> None:
        self._push(Persistent(self._line().decode("latin-1")))

    # --- text, bytes, numbers ---

    def _sized(self, length: int) -> bytes:
        if length > self.limits.text:
            raise self._too_large("length of a text")
        return self._take(length)

    def unicode(self, length: int) -> None:
        data = self._sized(length)
        try:
            self.stack.append(data.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            raise self._bad("a text is not UTF-8") from None

    def bytes_(self, length: int) -> None:
        self.stack.append(self._sized(length))

    def bytearray_(self) -> None:
        given = self._sized(self._number(_u64, 8))
        self._push(Call(Global("builtins", "bytearray"), Items("tuple", [given])))

    def string(self, length: int) -> None:
        self.stack.append(_old_text(self._sized(length)))

    def quoted(self) -> None:
        line = self._line()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
            raise self._bad("a text is not in quotes")
        self.stack.append(_old_text(line[1:-1]))

    def long(self, length: int) -> None:
        data = self._take(length)
        large = length > self.limits.int_bytes
        self.stack.append(Large(length) if large else int.from_bytes(data, "little", signed=True))

    def decimal(self) -> None:
        line = self._line().rstrip(b"L")
        if line in (b"00", b"01"):
            self.stack.append(line == b"01")
        elif len(line) > self.limits.digits:
            self.stack.append(Large(len(line)))
        else:
            try:
                self.stack.append(int(line))
            except ValueError:
                raise self._bad("an integer is no number") from None

    def decimal_float(self) -> None:
        try:
            self.stack.append(float(self._line()))
        except ValueError:
            raise self._bad("a float is no number") from None

    # --- the rest ---

    def pop(self) -> None:
        if not self.stack:
            raise self._bad("a value is taken from an empty stack")
        self.stack.pop()

    def out_of_band(self) -> None:
        raise self._bad("data outside of the pickle is needed")


def _old_text(data: bytes) -> Node:
    """Text of Python 2: Python 3 decodes it, so it can name a global."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


_Handler = Callable[[_Walker], object]

_NAMED: Mapping[int, _Handler] = {
    0x80: _Walker.proto,
    0x95: _Walker.frame,
    # memo
    0x68: lambda w: w._recall(w._byte()),
    0x6A: lambda w: w._recall(w._number(_u32, 4)),
    0x67: lambda w: w._recall(w._index()),
    0x71: lambda w: w._remember(w._byte()),
    0x72: lambda w: w._remember(w._number(_u32, 4)),
    0x70: lambda w: w._remember(w._index()),
    0x94: lambda w: w._remember(len(w.memo)),
    # constants and numbers
    0x4E: lambda w: w.stack.append(None),
    0x88: lambda w: w.stack.append(True),
    0x89: lambda w: w.stack.append(False),
    0x4B: lambda w: w.stack.append(w._byte()),
    0x4D: lambda w: w.stack.append(w._number(_u16, 2)),
    0x4A: lambda w: w.stack.append(w._number(_i32, 4)),
    0x47: lambda w: w.stack.append(_f64(w._take(8), 0)[0]),
    0x8A: lambda w: w.long(w._byte()),
    0x8B: lambda w: w.long(w._number(_i32, 4)),
    0x49: _Walker.decimal,
    0x4C: _Walker.decimal,
    0x46: _Walker.decimal_float,
    # text and bytes
    0x58: lambda w: w.unicode(w._number(_u32, 4)),
    0x8C: lambda w: w.unicode(w._byte()),
    0x8D: lambda w: w.unicode(w._number(_u64, 8)),
    0x56: lambda w: w.stack.append(w._line().decode("raw-unicode-escape", "replace")),
    0x42: lambda w: w.bytes_(w._number(_u32, 4)),
    0x43: lambda w: w.bytes_(w._byte()),
    0x8E: lambda w: w.bytes_(w._number(_u64, 8)),
    0x96: _Walker.bytearray_,
    0x54: lambda w: w.string(w._number(_i32, 4)),
    0x55: lambda w: w.string(w._byte()),
    0x53: _Walker.quoted,
    # containers
    0x28: lambda w: w.stack.append(_MARK),
    0x29: lambda w: w._push(Items("tuple")),
    0x85: lambda w: w.tuple_of(1),
    0x86: lambda w: w.tuple_of(2),
    0x87: lambda w: w.tuple_of(3),
    0x74: _Walker.tuple_,
    0x5D: lambda w: w._push(Items("list")),
    0x6C: _Walker.list_,
    0x61: _Walker.append,
    0x65: _Walker.appends,
    0x7D: lambda w: w._push(Pairs()),
    0x64: _Walker.dict_,
    0x73: _Walker.setitem,
    0x75: _Walker.setitems,
    0x8F: lambda w: w._push(Items("set")),
    0x90: _Walker.appends,
    0x91: _Walker.frozenset_,
    # globals and calls
    0x63: _Walker.global_,
    0x93: _Walker.stack_global,
    0x52: _Walker.reduce,
    0x81: _Walker.reduce,
    0x92: _Walker.newobj_ex,
    0x69: _Walker.inst,
    0x6F: _Walker.obj,
    0x62: _Walker.build,
    0x51: _Walker.persistent,
    0x50: _Walker.persistent_text,
    0x82: lambda w: w.extension(1),
    0x83: lambda w: w.extension(2),
    0x84: lambda w: w.extension(4),
    # the stack
    0x30: _Walker.pop,
    0x31: _Walker._to_mark,
    0x32: lambda w: w.stack.append(w._top()),
    0x97: _Walker.out_of_band,
    0x98: _Walker.out_of_band,
}
_HANDLERS: tuple[_Handler | None, ...] = tuple(_NAMED.get(code) for code in range(256))
