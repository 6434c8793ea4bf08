"""What an increment says of many keys, as columns: all lengths, all keys, all counts, and so on."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models import times
from streaminfer.models.keys import LARGEST
from streaminfer.models.keys import MAX_BYTES as MAX_KEY
from streaminfer.models.model import Matrix
from streaminfer.spec.key import MAX_COLUMNS
from streaminfer.variational.increment import ByKey
from streaminfer.wire import vectors
from streaminfer.wire.errors import BadValue

MAX_BYTES: Final = MAX_COLUMNS
"""Bytes of the columns of one increment."""
LATEST_MS: Final = 1000 * times.LATEST
_LENGTH: Final = np.dtype("<u2")
_COUNT: Final = 4
"""Bytes of the number of keys, before all else."""


def pack(keys: ByKey, statistics: Matrix, timed: bool) -> bytes:
    """The columns; `timed` if events are forgotten by time. Raises BadValue if they are too many."""
    lengths = np.array([len(label) for label in keys.labels], dtype=_LENGTH)
    columns = [keys.counts, keys.stamps, keys.oldest, *([keys.n_effective, keys.newest] if timed else [])]
    head = len(keys.labels).to_bytes(_COUNT, "little") + lengths.tobytes() + b"".join(keys.labels)
    data = head + b"".join(vectors.pack(column) for column in (*columns, statistics))
    if len(data) > MAX_BYTES:
        raise BadValue(f"the {len(lengths)} keys of a minibatch have {len(data)} bytes, more than {MAX_BYTES}")
    return data


def unpack(data: bytes, size: int, timed: bool, n_events: int, words: bool = False) -> tuple[ByKey, Matrix]:
    """The keys and their statistics (k, size); raises BadValue on anything else.

    An event has one key; with `words` it may have any number of them, and the counts are those of words.
    """
    k = int.from_bytes(data[:_COUNT], "little")
    at = _COUNT + _LENGTH.itemsize * k
    if len(data) < at or (k > 0 if words and n_events == 0 else k > n_events and not words):
        raise BadValue(f"{k} keys do not fit into {len(data)} bytes and {n_events} events")
    lengths = np.frombuffer(data, _LENGTH, k, _COUNT).tolist()
    labels: list[bytes] = []
    for length in lengths:
        labels.append(data[at : at + length])
        at += length
    _check_labels(labels, lengths)
    n_columns = 5 if timed else 3
    numbers = vectors.join([data[at:]], k * (n_columns + size))
    columns, statistics = numbers[: k * n_columns].reshape(n_columns, k), numbers[k * n_columns :].reshape(k, size)
    rest = (columns[3], columns[4]) if timed else (np.zeros(k), np.zeros(k))
    keys = ByKey(labels, columns[0], columns[1], columns[2], *rest)
    _check_numbers(keys, timed, n_events, words)
    return keys, statistics.copy()


def _check_labels(labels: list[bytes], lengths: list[int]) -> None:
    if lengths and not 1 <= min(lengths) <= max(lengths) <= MAX_KEY:
        raise BadValue(f"keys must have 1 to {MAX_KEY} bytes (got {min(lengths)} to {max(lengths)})")
    if len(set(labels)) != len(labels):
        raise BadValue("a key appears twice")
    try:
        b"\n".join(labels).decode()
    except UnicodeDecodeError as error:
        raise BadValue(f"a key is not UTF-8: {error.reason}") from error


def _check_numbers(keys: ByKey, timed: bool, n_events: int, words: bool) -> None:
    whole: NDArray[np.bool_] = (keys.counts >= 1) & (keys.counts == np.floor(keys.counts))
    if words and not (whole & (keys.counts <= LARGEST * n_events)).all():
        raise BadValue("counts of words must be whole, at least 1, and at most 2^53 for each event")
    if not words and (not whole.all() or keys.counts.sum() != n_events):
        raise BadValue(f"counts must be whole, at least 1, and those of all keys the {n_events} events")
    if not ((keys.stamps >= 0) & (keys.stamps <= LATEST_MS)).all():
        raise BadValue("stamps must be milliseconds of the years 1970 to 9999")
    if not ((keys.oldest >= 0) & (keys.oldest <= keys.stamps)).all():
        raise BadValue("oldest must be at least 0 and at most the key's stamp")
    if timed:
        fits = (keys.n_effective >= 1) & (keys.n_effective <= keys.counts * (1 + 1e-9))
        if not fits.all():
            raise BadValue("n_effective must be at least 1 and at most the key's events")
        if not ((keys.newest >= times.EARLIEST) & (keys.newest <= times.LATEST)).all():
            raise BadValue("newest must be a time of the years 1 to 9999")
