"""Valid messages of chains for tests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from streaminfer.sampling.draws import Counters, Draws
from streaminfer.sampling.pooled.shown import ChainShown, Fixed, Part, Shown
from streaminfer.sampling.states import SamplerState
from streaminfer.sampling.units import Span, Unit
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.errors import BadValue
from streaminfer.wire.sampled import draws as wire
from streaminfer.wire.sampled import sampler_states
from tests.wire.messages import FINGERPRINT

UNIT = Unit(subposterior=1, chain=2, chains=3, subposteriors=2)
"""Unit 5: it has the partitions 1, 3, 5 …"""
SIZE = 3
VALUES = np.array([[1.5, -2.25, 1e-300], [0.0, 1e300, -7.0]])
FRONTIER = (Span(1, 10, 60), Span(3, 0, 50), Span(5, 7, 7))
COUNTERS = Counters(60, 64, 6400, 2**40, 1000, 1, 3200)


def draws(**changes: Any) -> Draws:
    fields: dict[str, Any] = {
        "fingerprint": FINGERPRINT, "subposterior": 1, "chain": 2, "segment": 4, "phase": "draws", "begin": 128,
        "end": 148, "thin": 10, "size": 0.25, "noise": 0.5, "values": VALUES, "weights": np.array([1.0, 0.5]),
        "log_density": np.array([-12.5, -3.0]), "counters": COUNTERS, "n_events": 90, "n_dead_lettered": 4, "n_lost": 6,
        "frontier": FRONTIER, "score": -31.5, "n_scored": 20,
    }  # fmt: skip
    return Draws(**{**fields, **changes})


def state(**changes: Any) -> SamplerState:
    fields: dict[str, Any] = {
        "fingerprint": FINGERPRINT, "unit": 5, "segment": 4, "phase": "draws", "step": 148, "block": 3, "n_drawn": 2,
        "thin": 10, "frontier": FRONTIER, "n_events": 90, "digest": "00ff" * 8, "counters": COUNTERS,
        "values": np.arange(5.0), "setup": np.arange(7.0) / 3, "n_dead_lettered": 4, "n_lost": 6, "topic_id": "id",
    }  # fmt: skip
    return SamplerState(**{**fields, **changes})


def shown(**changes: Any) -> Shown:
    fields: dict[str, Any] = {
        "segments": (
            Fixed(0, 5, (Span(0, 3, 90), Span(2, 0, 70)), 1_700_000_000_123),
            Fixed(1, 4, FRONTIER, 1_700_000_000_124, 1e9),
        ),
        "segment": 4, "complete": True, "cut": True, "n_draws": 4000, "size": 0.25, "noise": 0.5, "acceptance": 0.25,
        "fraction": 1.5, "counters": COUNTERS, "n_scored": 20,
        "subposteriors": (Part(0, 5, 150, 2000, 700.5), Part(1, -1, 0, 0, 0.0, True, "no draw", (5, 0))),
        "chains": (ChainShown(0, "done", 9000, 77, 1), ChainShown(5, "setup", 0, 0, 1)),
    }  # fmt: skip
    return Shown(**{**fields, **changes})


def tightest(encode: Callable[[int], object]) -> int:
    """The fewest bytes that a record may have: those of its fields and of one number."""
    for max_bytes in range(1, 5000):
        with suppress(BadValue):
            encode(max_bytes)
            return max_bytes
    raise AssertionError


def draws_record(**changes: Any) -> tuple[bytes, bytes]:
    """Key and record of one block with any field changed, also to what `encode` would never write."""
    ((key, data),) = wire.encode(draws(), UNIT.number, 9, 1 << 20)
    return key, DECLARED.encode(wire.TOPIC, {**DECLARED.decode(wire.TOPIC, data), **changes})


def head_record(head: dict[str, Any] | None = None, **changes: Any) -> tuple[bytes, bytes]:
    """Key and record of a head with any field changed."""
    key, data = sampler_states.encode(state(), 1 << 20)[-1]
    value = DECLARED.decode(sampler_states.TOPIC, data)
    made = {**value, "head": {**value["head"], **(head or {})}, **changes}
    return key, DECLARED.encode(sampler_states.TOPIC, made)
