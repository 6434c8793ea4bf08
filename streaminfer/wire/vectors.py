"""Vectors of float64 as little-endian bytes, whole or in pieces that fit a record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.wire.errors import BadValue

_LITTLE: Final = np.dtype("<f8")
NUMBER: Final = _LITTLE.itemsize
"""Bytes of a number."""


def n_pieces(size: int, piece_bytes: int) -> int:
    """How many pieces `split` makes of N numbers."""
    return max(1, -(-size // (piece_bytes // NUMBER)))


def split(vector: NDArray[np.float64], piece_bytes: int) -> list[bytes]:
    """The bytes of a vector in pieces of whole numbers; at least one piece, maybe empty."""
    return cut(pack(vector), piece_bytes)


def pack(numbers: NDArray[np.float64]) -> bytes:
    """The bytes of a vector, or of the rows of a matrix one after the other."""
    return numbers.astype(_LITTLE).tobytes()


def cut(data: bytes, piece_bytes: int) -> list[bytes]:
    """Bytes in pieces; at least one, maybe empty."""
    step = piece_bytes - piece_bytes % NUMBER
    return [data[i : i + step] for i in range(0, len(data), step)] or [b""]


def cut_together(data: Sequence[bytes], piece_bytes: int) -> list[list[bytes]]:
    """Several bytes in pieces of all together: each has a share of every one, maybe empty. Raises BadValue."""
    if piece_bytes < NUMBER:
        raise BadValue("a record has no room for numbers: what they are of is too large")
    whole, pieces, at = b"".join(data), [], 0
    ends = list(accumulate(map(len, data)))
    for piece in cut(whole, piece_bytes):
        bounds = [min(max(end, at), at + len(piece)) - at for end in ends]
        pieces.append([piece[begin:end] for begin, end in zip([0, *bounds], bounds, strict=False)])
        at += len(piece)
    return pieces


def join(pieces: Sequence[bytes], size: int) -> NDArray[np.float64]:
    """The vector of `size` finite numbers that the pieces hold; raises BadValue."""
    data = b"".join(pieces)
    if len(data) != size * NUMBER:
        raise BadValue(f"{len(data)} bytes are not the {size * NUMBER} of {size} numbers")
    vector = np.frombuffer(data, dtype=_LITTLE).astype(np.float64)
    if not np.isfinite(vector).all():
        raise BadValue("a number is not finite")
    return vector
