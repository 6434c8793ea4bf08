"""Cheap messages: arbitrary bytes, and mutations of valid ones: bits flipped, bytes cut out, valid pieces put in.

A draw of plain bytes is read as the edits, because drawing a structure costs more than decoding its message.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.wire.budget import BATCH, BUNDLE

EDIT = 5
"""Bytes of one edit: its kind, place and content."""
LONGS = [b"\x00", b"\x01", b"\x02", b"\x7f", b"\xff" * 9 + b"\x01", b"\x80" * 20, b"\xfe\xff\xff\xff\x0f"]
"""Encoded integers at the edges: 0, -1, 1, -2^63, an endless one, 2^31 - 1."""


def arbitrary(max_size: int = 200) -> st.SearchStrategy[tuple[bytes, ...]]:
    """BUNDLE messages of any bytes."""
    return st.tuples(*[st.binary(max_size=max_size)] * BUNDLE)


def mutated(messages: Sequence[bytes], pieces: Sequence[bytes] = ()) -> st.SearchStrategy[list[bytes]]:
    """BATCH messages with up to two edits each; `pieces`, like whole messages, may be put in anywhere."""
    share = 1 + 2 * EDIT
    draws = st.binary(min_size=BATCH * (1 + EDIT), max_size=BATCH * share)
    return draws.map(lambda draw: [_mutate(draw[i::BATCH], messages, pieces) for i in range(BATCH)])


def _mutate(draw: bytes, messages: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    data = bytearray(messages[draw[0] % len(messages)])
    for i in range(1, len(draw) - EDIT + 1, EDIT):
        where, what = int.from_bytes(draw[i + 1 : i + 3]), int.from_bytes(draw[i + 3 : i + EDIT])
        _edit(data, draw[i] % 4, where % (len(data) + 1), what, (*pieces, *messages))
    return bytes(data)


def _edit(data: bytearray, kind: int, at: int, what: int, pieces: Sequence[bytes]) -> None:
    if kind == 0:
        data[at:at] = pieces[what % len(pieces)]
    elif kind == 1:
        del data[at : at + 1 + what % 16]
    elif at < len(data):
        data[at] = what % 256 if kind == 2 else data[at] ^ 1 << what % 8
