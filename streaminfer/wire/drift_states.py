"""What is known of drift, as the bytes in a snapshot's manifest: little-endian float64.

First come block_events, R of each bet (for all blocks, then for each lane's), and (events, score) of each lane's open
block. Then there is a row for each pool: its kind, stride, values since the last set aside, how many are aside, those
(padded with 0), and the reference with the bins' masses (0 if there is none yet).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from streaminfer.variational.drift.ranks import EDGES, FIRST_STRIDE, LAST_STRIDE, SKIPPED, Pool
from streaminfer.variational.drift.watching import DROPS, LANES, SIZES, ScoreBlock, State
from streaminfer.wire import vectors
from streaminfer.wire.errors import BadValue

EVIDENCE: Final = (1 + LANES) * len(DROPS)
HEAD: Final = 1 + EVIDENCE + 2 * LANES
ROW: Final = 4 + EDGES + EDGES + (EDGES + 1)
MAX_BYTES: Final = 8 * (HEAD + LANES * SIZES * ROW)
_STRIDES: Final = {1, *(FIRST_STRIDE << k for k in range(20) if FIRST_STRIDE << k <= LAST_STRIDE)}
_LARGEST: Final = 2.0**53


def encode(state: State) -> bytes:
    """The bytes of a state; not the alarms, which are fields of their own."""
    numbers: list[float] = [state.block_events, *(r for row in state.evidence for r in row)]
    for block in state.open:
        numbers += block
    for kind in sorted(state.pools):
        numbers += _row(kind, state.pools[kind])
    return vectors.split(np.array(numbers, dtype=np.float64), MAX_BYTES)[0]


def _row(kind: int, pool: Pool) -> list[float]:
    edges, masses = pool.edges or (0.0,) * EDGES, pool.masses or (0,) * (EDGES + 1)
    aside = (*pool.aside, *(0.0,) * (EDGES - len(pool.aside)))
    return [kind, pool.stride, pool.since, len(pool.aside), *aside, *edges, *masses]


def decode(data: bytes, n_alarms: int, alarm_at: int) -> State:
    """The state; raises BadValue if no stream of scores leads to such numbers."""
    n_pools, rest = divmod(len(data) - 8 * HEAD, 8 * ROW)
    if rest or not 0 <= n_pools <= LANES * SIZES:
        raise BadValue(f"{len(data)} bytes are not a state of drift")
    numbers = vectors.join([data], len(data) // 8).tolist()
    block_events, won, rest_of_head = _count(numbers[0], 1), numbers[1 : 1 + EVIDENCE], numbers[1 + EVIDENCE : HEAD]
    evidence = tuple(tuple(won[i : i + len(DROPS)]) for i in range(0, EVIDENCE, len(DROPS)))
    opened = tuple(ScoreBlock(_count(n), score) for n, score in zip(rest_of_head[::2], rest_of_head[1::2], strict=True))
    if min(won) < 0 or max(n for n, _ in opened) >= block_events:
        raise BadValue("evidence of drift is negative, or an open block is full")
    pools = dict(_pool(numbers[i : i + ROW]) for i in range(HEAD, len(numbers), ROW))
    if len(pools) < n_pools or not pools.keys() <= set(range(LANES * SIZES)):
        raise BadValue("a kind of blocks appears twice, or does not exist")
    return State(block_events, evidence, opened, pools, n_alarms, alarm_at)


def _pool(row: list[float]) -> tuple[int, Pool]:
    kind, stride, n_aside = _count(row[0]), _count(row[1]), _count(row[3])
    fresh = stride == 1 and n_aside == 0
    since = _count(row[2], -SKIPPED if fresh else 0)
    aside, edges, masses = row[4 : 4 + EDGES], row[4 + EDGES : 4 + 2 * EDGES], row[4 + 2 * EDGES :]
    if stride not in _STRIDES or since >= stride or n_aside >= EDGES:
        raise BadValue(f"a stride of {stride} with {since} values since the last of {n_aside} cannot be")
    pool = Pool(aside=tuple(aside[:n_aside]), stride=stride, since=since)
    if stride == 1:
        return kind, pool
    if sorted(edges) != edges:
        raise BadValue("the edges of bins must be in order")
    return kind, pool._replace(edges=tuple(edges), masses=_masses(masses))


def _masses(numbers: Iterable[float]) -> tuple[int, ...]:
    return tuple(_count(number, 1) for number in numbers)


def _count(number: float, least: int = 0) -> int:
    if not least <= number < _LARGEST or number != int(number):
        raise BadValue(f"{number:g} is not a whole number from {least} to 2^53")
    return int(number)
