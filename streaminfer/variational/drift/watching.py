"""An alarm when events are predicted worse than before, with false alarms budgeted by the event.

Scores of minibatches are collected into blocks. A block's mean score is compared with earlier ones of its kind by rank
(see `ranks`), so the model need not be right. Bets that ranks are low make an e-detector of the Shiryaev-Roberts kind
(Shin, Ramdas & Rinaldo 2023, «E-detectors»): R <- (R + n) e for a block of n events, with e >= 0 of mean 1 given the
past. So R less the events seen is a martingale. At the first time R reaches the budget A, the expected number of events
is at least A (optional stopping).

There is an R for all blocks and one for the blocks of each lane, as a change may be everywhere or in one partition.
Together the lanes see each event once too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Final, NamedTuple

from streaminfer.variational.drift import ranks
from streaminfer.variational.drift.ranks import Pool, Share

DROPS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
"""What is bet on, in equal parts: that mean scores of blocks fell by this many of their standard deviations."""
LANES: Final = 8
"""Partitions are compared with their own past up to this many; beyond, those of equal index modulo this share one."""
SIZES: Final = 4
"""Blocks are compared with those of their size within a factor of two; 8 times the least and more are one size."""
_NORMAL: Final = NormalDist()
_MASK: Final = (1 << 64) - 1


Row = tuple[float, ...]


class ScoreBlock(NamedTuple):
    """Events whose scores are summed until there are enough of them."""

    n_events: int = 0
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class State:
    """What the next step needs: R by bet, the block that is open in each lane, and the pools of ranks by kind.

    `evidence` has a row of all bets for all blocks together, then one for the blocks of each lane.
    """

    block_events: int
    evidence: tuple[Row, ...] = ((0.0,) * len(DROPS),) * (1 + LANES)
    open: tuple[ScoreBlock, ...] = (ScoreBlock(),) * LANES
    pools: Mapping[int, Pool] = field(default_factory=dict)
    n_alarms: int = 0
    alarm_at: int = -1
    """Events in the posterior at the newest alarm; -1 before the first."""

    @property
    def mean_evidence(self) -> float:
        """R of the mixture of bets; the alarm comes when it reaches the budget."""
        return sum(map(sum, self.evidence)) / len(DROPS) / 2

    @property
    def log_evidence(self) -> float:
        """log R, and 0 for any R below one event."""
        return math.log(max(self.mean_evidence, 1.0))


class Scored(NamedTuple):
    """The score of a minibatch: `n_events` >= 1 events of a partition that end at position `end`."""

    partition: int
    end: int
    n_events: int
    score: float


def started(state: State | None, block_events: int) -> State:
    """The state if it has blocks of this size, else a new one that has only the alarms of the old."""
    if state is None:
        return State(block_events)
    if state.block_events == block_events:
        return state
    return State(block_events, n_alarms=state.n_alarms, alarm_at=state.alarm_at)


def step(state: State, scored: Scored, budget: float, n_events: int) -> State:
    """The state with one more minibatch. If R reaches `budget`, there is an alarm at `n_events` and R starts anew."""
    lane = scored.partition % LANES
    n, score = state.open[lane]
    block = ScoreBlock(n + scored.n_events, score + scored.score)
    if block.n_events < state.block_events:
        return replace(state, open=_replaced(state.open, lane, block))
    opened = replace(state, open=_replaced(state.open, lane, ScoreBlock()))
    kind = lane * SIZES + _size(block.n_events, state.block_events)
    pool, share = ranks.step(state.pools.get(kind, Pool()), _value(block, scored))
    stepped = replace(opened, pools={**state.pools, kind: pool})
    if share is None:
        return stepped
    stepped = replace(
        stepped, evidence=_won(state.evidence, lane, block.n_events, [bet(share, drop) for drop in DROPS])
    )
    if stepped.mean_evidence < budget:
        return stepped
    return State(state.block_events, n_alarms=state.n_alarms + 1, alarm_at=n_events)


def bet(share: Share, drop: float) -> float:
    """The mean over a share of the density of ranks when N(0, 1) has become N(-drop, 1); its integral is 1."""
    return (_fallen(share.high, drop) - _fallen(share.low, drop)) / (share.high - share.low)


def _won(evidence: tuple[Row, ...], lane: int, n: int, bets: Sequence[float]) -> tuple[Row, ...]:
    rows = list(evidence)
    for i in (0, 1 + lane):
        rows[i] = tuple((r + n) * e for r, e in zip(rows[i], bets, strict=True))
    return tuple(rows)


def _fallen(rank: float, drop: float) -> float:
    return rank if rank in {0.0, 1.0} else _NORMAL.cdf(_NORMAL.inv_cdf(rank) + drop)


def _size(n: int, least: int) -> int:
    return min((n // least).bit_length(), SIZES) - 1


def _value(block: ScoreBlock, scored: Scored) -> float:
    """The mean score of a block, whose sum is blurred by up to one nat.

    Less than that says nothing of a whole block. Without it the ranks of equal blocks (256 times the same event) would
    follow the smallest movements of the posterior. The blur comes from the position: a replay repeats it.
    """
    blur = max(1.0, 2.0**-30 * abs(block.score)) * uniform(scored.partition, scored.end)
    return (block.score + blur) / block.n_events


def uniform(partition: int, position: int) -> float:
    """A number from 0 to 1 for each position: two rounds of splitmix64 (Steele, Lea & Flood 2014)."""
    return (_mixed(_mixed(partition) ^ position) >> 11) * 2.0**-53


def _mixed(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _replaced(blocks: tuple[ScoreBlock, ...], lane: int, block: ScoreBlock) -> tuple[ScoreBlock, ...]:
    return (*blocks[:lane], block, *blocks[lane + 1 :])
