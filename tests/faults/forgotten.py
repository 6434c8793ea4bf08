"""Cases of posteriors that forget: the weights of rows from their definition, and the exact answer for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.faults.answers import MODELS, Case

BEGIN = 1_700_000_000


def by_events(model: str, n: int, partitions: int, half_life: float, **options: float) -> tuple[Case, dict[str, Any]]:
    """`produce` deals rows out in turn: after row i its partition gets rows i + partitions, i + 2 partitions, ..."""
    after = (n - 1 - np.arange(n)) // partitions
    case = MODELS[model](n, weights=0.5 ** (after / half_life), **options)
    return case, {"forget": {"half_life_events": half_life}}


def by_time(model: str, n: int, half_life: float, **options: float) -> tuple[Case, dict[str, Any]]:
    dated = _dated(model, n, lambda seconds: 0.5 ** ((seconds.max() - seconds) / half_life), **options)
    return dated, {"forget": {"half_life_seconds": half_life}}


def last_seconds(model: str, n: int, span: float, **options: float) -> tuple[Case, dict[str, Any]]:
    def inside(seconds: np.ndarray) -> np.ndarray:
        return np.floor(seconds / (span / 64)) >= np.floor((seconds.max() - span) / (span / 64))

    return _dated(model, n, inside, **options), {"forget": {"window_seconds": span}}


def last_events(
    model: str, n: int, places: Mapping[int, Sequence[int]], frontier: Mapping[int, int], span: int
) -> Case:
    """The rows at the last positions of each partition.

    `places` has the positions of its records, in their order: between them may be markers of transactions. `produce`
    deals rows out in turn.
    """
    weights, pane = np.zeros(n), -(-span // 64)
    for partition, positions in places.items():
        inside = np.array(positions) // pane >= (frontier[partition] - span) // pane
        weights[partition :: len(places)] = inside
    return MODELS[model](n, weights=weights)


def _dated(model: str, n: int, weigh: Callable[[np.ndarray], np.ndarray], **options: float) -> Case:
    """A row each second by the field `at`, every fifth of them late by any time; every other as a text."""
    rng = np.random.default_rng(3)
    seconds = BEGIN + np.arange(n) - (rng.random(n) < 0.2) * rng.integers(0, n, n)
    case = MODELS[model](n, weights=weigh(seconds).astype(float), **options)
    texts = [f"{np.datetime64(int(at), 's')}Z" if i % 2 else int(at) for i, at in enumerate(seconds)]
    rows = [[*row, at] for row, at in zip(case.rows, texts, strict=True)]
    return replace(case, header=[*case.header, "at"], rows=rows, timestamp="at")
