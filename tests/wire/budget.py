"""How many random inputs every decoder gets in a default run; the sum is promised and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

BATCH = 4
"""Messages in one draw of a mutating strategy: drawing costs more than decoding."""
BUNDLE = 8
"""The same of arbitrary bytes, which are even quicker to decode."""

INPUTS = {
    "increments.decode, arbitrary bytes": 10_000,
    "increments.decode, mutated": 16_000,
    "increments.assemble, any parts": 4_000,
    "snapshots.add, arbitrary bytes": 10_000,
    "snapshots.add, mutated": 14_000,
    "snapshots.add of draws, mutated": 8_000,
    "panes.add, arbitrary bytes": 2_000,
    "panes.add, mutated": 6_000,
    "draws.add, arbitrary bytes": 2_000,
    "draws.add, mutated": 8_000,
    "questions.add and answers.add, arbitrary bytes": 2_000,
    "questions.add and answers.add, mutated": 8_000,
    "measurements.decode and beats.decode, arbitrary bytes": 2_000,
    "measurements.decode and beats.decode, mutated": 8_000,
    "sampler_states.add, arbitrary bytes": 2_000,
    "sampler_states.add, mutated": 8_000,
    "increments.assemble, any panes": 2_000,
    "events.decode_json, arbitrary bytes": 8_000,
    "events.decode_json, mutated": 8_000,
    "avro_events.decode, arbitrary bytes": 2_000,
    "avro_events.decode, mutated": 8_000,
    "avro_schema.reduced, mutated": 4_000,
    "rows.decode, arbitrary bytes": 2_000,
    "rows.decode, mutated": 4_000,
    "dead_letters.decode": 3_000,
    "load_spec, arbitrary bytes": 800,
    "load_spec, mutated": 600,
    "parse_spec, nested values": 400,
    "read_csv, arbitrary bytes": 1_000,
    "read_csv, mutated": 2_000,
    "read_ndjson, arbitrary bytes": 1_000,
    "read_ndjson, mutated": 2_000,
    "read_avro, mutated": 4_000,
}
PROMISED = 150_000


def examples(decoder: str) -> Callable[[Any], Any]:
    """Settings for the inputs of one decoder; every run draws new ones."""
    in_one_draw = BATCH if decoder.endswith(", mutated") else BUNDLE if decoder.endswith(", arbitrary bytes") else 1
    return settings(
        max_examples=INPUTS[decoder] // in_one_draw,
        deadline=None,
        derandomize=False,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
