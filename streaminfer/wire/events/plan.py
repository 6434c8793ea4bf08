"""How the fields of a model are read out of Avro bodies: a writer's schema turned into a few steps, once.

Every step but the last bytes of a run takes at least one byte, and what no field needs is passed over without being
made. So the size of a body bounds the work and the memory. Runs of fixed width become one `struct`. A schema that is
nothing but one run is read by numpy, many bodies at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.models.events import Field
from streaminfer.spec.avro_schema import Schema, per_second
from streaminfer.wire.errors import BadBody

_CODES: Final = {"boolean": "B", "float": "f", "double": "d"}
"""A boolean is read as the byte that it is: any but 0 and 1 is then outside the domain."""
_DTYPES: Final = {"B": "u1", "f": "<f4", "d": "<f8"}
_SKIPPED: Final = {"boolean": "1x", "float": "4x", "double": "8x"}
_LONGEST: Final = 10
"""Bytes of the longest Avro number."""

Op = Callable[[bytes, int, list[object]], int]
"""Reads on from a place in a body, puts what is wanted into slots, and returns the place after it."""


class Run(NamedTuple):
    """Values of fixed width: their format for `struct`, and the slots of each that is wanted."""

    format: str
    slots: tuple[tuple[int, ...], ...] = ()


@dataclass
class _Wanted:
    """A place in a schema: the slots it fills, those of them that are times, and the places below it."""

    slots: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    below: dict[str, _Wanted] = field(default_factory=dict)


_NOTHING: Final = _Wanted()


class Plan:
    """Reads one writer's bodies. There is a `dtype` if all bodies have one width."""

    def __init__(self, schema: Schema, fields: Sequence[Field], defaults: Mapping[str, Any], header: int) -> None:
        """`schema` has the fields (see `check_fields`) or `defaults` has them; `header` bytes precede a body."""
        root = _Wanted()
        for slot, each in enumerate(fields):
            here = root
            for name in each.path:
                here = here.below.setdefault(name, _Wanted())
            here.slots.append(slot)
            if each.kind == "time":
                here.times.append(slot)
        steps = _merged(_steps(schema, root))
        self._blank: list[object] = [defaults.get(each.name) for each in fields]
        self._header, self._op = header, _program(steps)
        self.dtype = _dtype(steps, len(fields), header)

    def read(self, data: bytes) -> list[object]:
        """The values of one body, in the order of the fields; raises BadBody."""
        out = self._blank.copy()
        try:
            end = self._op(data, self._header, out)
        except (IndexError, struct.error):
            end = len(data) + 1
        except UnicodeDecodeError as error:
            raise BadBody(f"a text is not UTF-8: {error.reason}") from error
        if end > len(data):
            raise BadBody("the record ends too early")
        if end < len(data):
            raise BadBody(f"{len(data) - end} bytes are left over after the record")
        return out


def _dtype(steps: Sequence[Run | Op], n_fields: int, header: int) -> np.dtype[Any] | None:
    """Each field at its offset in a whole record, if the plan is one run that has them all."""
    if len(steps) != 1 or not isinstance(steps[0], Run):
        return None
    run, offset, taken = steps[0], header, iter(steps[0].slots)
    names, formats, offsets = [], [], []
    for code in _split(run.format):
        if not code.endswith("x"):
            for slot in next(taken):
                names.append(str(slot))
                formats.append(_DTYPES[code])
                offsets.append(offset)
        offset += struct.calcsize("<" + code)
    if len(names) != n_fields:
        return None
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": offset})


def _split(codes: str) -> list[str]:
    """`4xd8xf` as its parts."""
    parts, digits = [], ""
    for c in codes:
        digits += c
        if not c.isdigit():
            parts.append(digits)
            digits = ""
    return parts


def _steps(schema: Schema, wanted: _Wanted) -> list[Run | Op]:
    if isinstance(schema, list):
        return [_union([_program(_merged(_steps(branch, wanted))) for branch in schema])]
    return _primitive(schema, wanted) if isinstance(schema, str) else _complex(schema, wanted)


def _complex(schema: dict[str, Any], wanted: _Wanted) -> list[Run | Op]:
    match schema["type"]:
        case "record":
            below = wanted.below
            return [
                step for each in schema["fields"] for step in _steps(each["type"], below.get(each["name"], _NOTHING))
            ]
        case "fixed":
            return [Run(f"{schema['size']}x")] if schema["size"] else []
        case "enum":
            return [_enum(schema["symbols"], wanted.slots)]
        case "long":
            return [_take_moment(wanted, per_second(schema)) if wanted.slots else _skip_long]
        case "array":
            return [_blocks(_merged(_steps(schema["items"], _NOTHING)))]
    return [_blocks(_merged([_skip_bytes, *_steps(schema["values"], _NOTHING)]))]


def _primitive(name: str, wanted: _Wanted) -> list[Run | Op]:
    slots = wanted.slots
    if name == "null":
        return [_none(slots)] if slots else []
    if name in _SKIPPED:
        return [Run(_CODES[name], (tuple(slots),)) if slots else Run(_SKIPPED[name])]
    if name in {"int", "long"}:
        return [_take_long(slots) if slots else _skip_long]
    return [_take_text(slots) if slots else _skip_bytes]


def _merged(steps: Sequence[Run | Op]) -> list[Run | Op]:
    """Neighbouring runs as one."""
    made: list[Run | Op] = []
    for step in steps:
        if isinstance(step, Run) and made and isinstance(made[-1], Run):
            made[-1] = Run(made[-1].format + step.format, made[-1].slots + step.slots)
        else:
            made.append(step)
    return made


def _program(steps: Sequence[Run | Op]) -> Op:
    ops = tuple(_run(step) if isinstance(step, Run) else step for step in steps)
    if len(ops) == 1:
        return ops[0]

    def program(data: bytes, at: int, out: list[object]) -> int:
        for op in ops:
            at = op(data, at, out)
        return at

    return program


def _run(run: Run) -> Op:
    packed, slots = struct.Struct("<" + run.format), run.slots
    size = packed.size
    if not slots:
        return lambda _data, at, _out: at + size

    def take(data: bytes, at: int, out: list[object]) -> int:
        for value, targets in zip(packed.unpack_from(data, at), slots, strict=True):
            for slot in targets:
                out[slot] = value
        return at + size

    return take


def _none(slots: Sequence[int]) -> Op:
    def take(_data: bytes, at: int, out: list[object]) -> int:
        for slot in slots:
            out[slot] = None
        return at

    return take


def _take_long(slots: Sequence[int]) -> Op:
    def take(data: bytes, at: int, out: list[object]) -> int:
        value, at = _long(data, at)
        for slot in slots:
            out[slot] = value
        return at

    return take


def _take_moment(wanted: _Wanted, units: int) -> Op:
    """A number of a logical type for moments: a time in seconds, and for all others the number that it is."""
    times = set(wanted.times)

    def take(data: bytes, at: int, out: list[object]) -> int:
        value, at = _long(data, at)
        for slot in wanted.slots:
            out[slot] = value / units if slot in times else value
        return at

    return take


def _take_text(slots: Sequence[int]) -> Op:
    def take(data: bytes, at: int, out: list[object]) -> int:
        end = _skip_bytes(data, at, out)
        if end > len(data):
            return end
        text = data[_long(data, at)[1] : end].decode()
        for slot in slots:
            out[slot] = text
        return end

    return take


def _enum(symbols: Sequence[str], slots: Sequence[int]) -> Op:
    def take(data: bytes, at: int, out: list[object]) -> int:
        index, at = _long(data, at)
        if not 0 <= index < len(symbols):
            raise BadBody(f"symbol {index} of an enum with {len(symbols)}")
        for slot in slots:
            out[slot] = symbols[index]
        return at

    return take


def _union(choices: Sequence[Op]) -> Op:
    def take(data: bytes, at: int, out: list[object]) -> int:
        index, at = _long(data, at)
        if not 0 <= index < len(choices):
            raise BadBody(f"branch {index} of a union with {len(choices)}")
        return choices[index](data, at, out)

    return take


def _blocks(item: Sequence[Run | Op]) -> Op:
    """Passes over an array or a map; each of its elements has a byte at least."""
    op = _program(item)

    def skip(data: bytes, at: int, out: list[object]) -> int:
        count, at = _long(data, at)
        while count:
            if count < 0:  # then the block says how many bytes it has
                at = _skip_bytes(data, at, out)
            elif count > len(data) - at:
                return len(data) + 1
            else:
                for _ in range(count):
                    at = op(data, at, out)
            count, at = _long(data, at)
        return at

    return skip


def _skip_long(data: bytes, at: int, _out: list[object]) -> int:
    return _long(data, at)[1]


def _skip_bytes(data: bytes, at: int, _out: list[object]) -> int:
    size, at = _long(data, at)
    if size < 0:
        raise BadBody(f"a length of {size}")
    return at + size


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Avro's number of variable length, and the place after it."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    for place in range(at + 1, at + _LONGEST):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place + 1
        shift += 7
    raise BadBody(f"a number of more than {_LONGEST} bytes")
