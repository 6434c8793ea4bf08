"""Cases of posteriors that forget: the weights of rows from their definition, and the exact answer for them."""

from __future__ import annotations

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
    """A row each second by the field `at`, every fifth of them late by any time; every other as a text."""
    rng = np.random.default_rng(3)
    seconds = BEGIN + np.arange(n) - (rng.random(n) < 0.2) * rng.integers(0, n, n)
    case = MODELS[model](n, weights=0.5 ** ((seconds.max() - seconds) / half_life), **options)
    texts = [f"{np.datetime64(int(at), 's')}Z" if i % 2 else int(at) for i, at in enumerate(seconds)]
    rows = [[*row, at] for row, at in zip(case.rows, texts, strict=True)]
    dated = replace(case, header=[*case.header, "at"], rows=rows, timestamp="at")
    return dated, {"forget": {"half_life_seconds": half_life}}
