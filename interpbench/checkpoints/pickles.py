"""Reads the pickles in the published files without executing them: the only file that reads pickles at all.

The published models are pickles and will stay so, which is why this exception to "no pickle" exists. A
pickle is a program for a small machine. `read_plain` runs the part of it that makes plain data, and knows
the few classes that occur by name alone: nothing is imported, called or given a state. Everything else is
refused by name. No value is larger than the bytes that it is read from, and shared parts are shared, so that
memory stays within a small multiple of the file. Weights are left to `torch.load(weights_only=True)`, after
a look at what it would be asked to do: only the names that a state dict needs, only stored bytes.
"""

import io
import pickletools
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from interpbench.core.errors import CheckpointError
from interpbench.core.files import read_bytes

MOST_PLAIN, MOST_WEIGHTS = 1 << 18, 1 << 32
"""The largest pickle, also that inside a file of weights, and the largest file of weights, in bytes."""
CONFIGS = (
    "transformer_lens.HookedTransformerConfig.HookedTransformerConfig",
    "transformer_lens.config.HookedTransformerConfig.HookedTransformerConfig",
    "transformer_lens.config.hooked_transformer_config.HookedTransformerConfig",
)
DTYPES = {f"torch.{name}" for name in ("float64", "float32", "float16", "bfloat16")}
STORAGES = {f"torch.{name}Storage" for name in ("Double", "Float", "Half", "BFloat16", "Long", "Bool")}
TENSORS = {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"}
_MARK = object()


class _Name(str):
    """A class or constant, by its name."""


class _Instance:
    """What a call of a class would make: its name, and the state that it would get."""

    def __init__(self, name: str):
        self.name, self.state = name, dict[str, object]()


def read_plain(data: bytes, where: object) -> object:
    """Returns the plain data of a pickle: None, bools, numbers, text, lists, tuples, dicts with text keys.

    A configuration object becomes a dict of its attributes, a torch dtype or device its text.

    Args:
        data: the pickle.
        where: what to call it in errors.

    Raises:
        CheckpointError: one line, if it is damaged, or holds anything else, which is named.
    """
    if len(data) > MOST_PLAIN:
        raise CheckpointError(f"{where} has {len(data):,} bytes; at most {MOST_PLAIN:,} are read")
    try:
        machine = _Machine()
        for operation, argument, _ in pickletools.genops(data):
            machine.step(operation.name, argument)
        return _plain(machine.result())
    except _RefusedError as error:
        raise CheckpointError(f"{where} is refused: it holds {error}") from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError):
        raise CheckpointError(f"{where} is damaged: not a pickle that can be read") from None


class _RefusedError(Exception):
    """What a pickle asks for and does not get."""


class _Machine:
    """A stack, a memo and the operations that make plain data; any other is refused."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}
        self.ended = False
        self.items = 0

    def count(self, items: int) -> None:
        """Counts entries that are put into dicts and states; an honest file has fewer than bytes."""
        self.items += items
        if self.items > MOST_PLAIN:
            raise _RefusedError(f"more than {MOST_PLAIN:,} entries, some of them many times")

    def result(self) -> object:
        """Returns the one value that a whole pickle leaves."""
        (value,) = self.stack
        if not self.ended or value is _MARK:
            raise ValueError("it does not end")
        return value

    def step(self, name: str, argument: Any) -> None:
        """Does one operation."""
        if name in _PUSHED:
            self.stack.append(_PUSHED[name]())
        elif name in _LITERALS:
            self.stack.append(argument)
        elif name in _PUTS:
            self.memo[len(self.memo) if name == "MEMOIZE" else int(argument)] = self.top()
        elif name in _GETS:
            self.stack.append(self.memo[int(argument)])
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in ("PROTO", "FRAME"):
            raise _RefusedError(f"the operation {name}")

    def top(self) -> object:
        """Returns the last value."""
        if self.stack[-1] is _MARK:
            raise ValueError("a mark is no value")
        return self.stack[-1]

    def pop(self) -> Any:
        """Takes the last value."""
        value = self.top()
        self.stack.pop()
        return value

    def pop_marked(self) -> list[object]:
        """Takes everything above the last mark, and the mark."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError("no mark")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def tuple_of(self, count: int) -> None:
        """Joins the last values."""
        values = [self.pop() for _ in range(count)]
        self.stack.append(tuple(reversed(values)))

    def append(self, values: list[object]) -> None:
        """Adds to the list on top."""
        target = self.top()
        if type(target) is not list:
            raise ValueError("not a list")
        target.extend(values)

    def set_items(self, values: list[object]) -> None:
        """Adds to the dict on top."""
        target = self.top()
        if type(target) is not dict:
            raise ValueError("not a dict")
        self.count(len(values))
        target.update(_pairs(values))

    def name(self, text: str) -> None:
        """Pushes a name, if it is one of those that occur."""
        known = text in CONFIGS or text in DTYPES or text in ("torch.device", "collections.OrderedDict")
        if not known and text not in ("copyreg._reconstructor", "copy_reg._reconstructor", *_OBJECT):
            raise _RefusedError(text if len(text) < 100 else f"{text[:99]}…")
        self.stack.append(_Name(text))

    def call(self) -> None:
        """Replaces a name and its arguments by what the call would make."""
        arguments, function = self.pop(), self.pop()
        if type(function) is not _Name or type(arguments) is not tuple:
            raise ValueError("not a call")
        if function == "torch.device" and all(type(a) in (str, int) for a in arguments) and arguments:
            self.stack.append(":".join(map(str, arguments[:2])))
        elif function == "collections.OrderedDict" and not arguments:
            self.stack.append({})
        elif function in CONFIGS and not arguments:
            self.stack.append(_Instance(function))
        elif function.endswith("._reconstructor") and arguments and arguments[0] in CONFIGS:
            self.stack.append(_Instance(arguments[0]))
        else:
            raise _RefusedError(f"a call of {function}")

    def build(self) -> None:
        """Gives an instance its state."""
        state, instance = self.pop(), self.top()
        if type(instance) is not _Instance or type(state) is not dict:
            raise _RefusedError("a state for what is no configuration")
        self.count(len(state))
        instance.state.update(state)


_OBJECT = ("builtins.object", "__builtin__.object")
_PUSHED: dict[str, Callable[[], object]] = {
    **{"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "MARK": lambda: _MARK},
    **{"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple},
}
_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
_PUTS = {"MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"}
_GETS = {"GET", "BINGET", "LONG_BINGET"}
_ACTIONS: dict[str, Callable[[_Machine, Any], object]] = {
    "POP": lambda m, _: m.stack.pop() and None,
    "LIST": lambda m, _: m.stack.append(m.pop_marked()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_marked())),
    "TUPLE1": lambda m, _: m.tuple_of(1),
    "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3),
    "DICT": lambda m, _: m.stack.append(_pairs(m.pop_marked())),
    "APPEND": lambda m, _: m.append([m.pop()]),
    "APPENDS": lambda m, _: m.append(m.pop_marked()),
    "SETITEM": lambda m, _: m.set_items([m.pop(), m.pop()][::-1]),
    "SETITEMS": lambda m, _: m.set_items(m.pop_marked()),
    "GLOBAL": lambda m, argument: m.name(argument.replace(" ", ".")),
    "STACK_GLOBAL": lambda m, _: m.name(".".join([m.pop(), m.pop()][::-1])),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
    "STOP": lambda m, _: setattr(m, "ended", True),
}


def _pairs(values: list[Any]) -> dict[str, object]:
    """Returns keys and values, which alternate, as a dict; only text is a key."""
    if len(values) % 2 or not all(type(key) is str for key in values[::2]):
        raise ValueError("not the items of a dict with text keys")
    return dict(zip(values[::2], values[1::2]))


def _plain(value: object) -> object:
    """Returns what a value stands for; only the outermost may be a configuration."""
    value = value.state if type(value) is _Instance else value
    listed = value if type(value) is list or type(value) is tuple else ()
    inner = value.values() if type(value) is dict else listed
    for part in inner:
        if type(part) is _Instance:
            raise _RefusedError(f"a {part.name} inside")
    return {key: _text(part) for key, part in value.items()} if type(value) is dict else _text(value)


def _text(value: object) -> object:
    return str(value) if type(value) is _Name else value


def read_weights(path: Path, most: int = MOST_WEIGHTS) -> dict[str, Tensor]:
    """Returns the tensors of a state dict that `torch.save` wrote, on the CPU.

    Args:
        path: the file.
        most: the largest number of bytes that it may have.

    Raises:
        CheckpointError: one line, if it is damaged, of the format before PyTorch 1.6, larger than the file
            that holds it, or holds anything but dense tensors, which is named.
    """
    data = read_bytes(path, min(most, MOST_WEIGHTS), CheckpointError)
    try:
        _look(data)
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except _RefusedError as error:
        raise CheckpointError(f"{path} is refused: it holds {error}") from None
    except Exception as error:  # noqa: BLE001  whatever damage provokes in zipfile, torch or its unpickler
        raise CheckpointError(f"{path} is damaged ({type(error).__name__})") from None
    if not isinstance(state, dict) or not all(_is_weight(name, value) for name, value in state.items()):
        raise CheckpointError(f"{path} is no state dict: it holds other things than named tensors")
    return state


def _look(data: bytes) -> None:
    """Refuses an archive that holds more than its bytes, or names what no state dict needs."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise _RefusedError("compressed parts, which torch.save does not write")
        if sum(entry.file_size for entry in entries) > len(data):
            raise _RefusedError("parts that overlap")
        (program,) = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
        if program.file_size > MOST_PLAIN:
            raise _RefusedError(f"a pickle of {program.file_size:,} bytes; at most {MOST_PLAIN:,} are read")
        for name in _names(archive.read(program)):
            if name not in TENSORS | STORAGES:
                raise _RefusedError(name[:99])


def _names(program: bytes) -> Iterator[str]:
    """Yields every class and function that a pickle names."""
    for operation, argument, _ in pickletools.genops(program):
        if operation.name == "GLOBAL":
            yield str(argument).replace(" ", ".")
        elif operation.name in ("STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4"):
            raise _RefusedError(f"the operation {operation.name}")


def _is_weight(name: object, value: object) -> bool:
    """Returns whether a value is a dense tensor that is no larger than what it is stored in."""
    return (
        isinstance(name, str)
        and isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )
