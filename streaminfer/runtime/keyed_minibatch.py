"""A minibatch of a keyed posterior: its events by key, and the keys by shard."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.runtime import names
from streaminfer.runtime.intake import Intake
from streaminfer.spec import Spec
from streaminfer.variational import keyed, rules
from streaminfer.variational.increment import ByKey


def by_shard(spec: Spec, taken: Intake) -> list[dict[str, Any]]:
    """What the increment of every shard says of its events; a shard without keys here gets one of no events."""
    model, keys = spec.model, taken.keys
    if keys is None or not keys.labels:
        return [_part(keyed.nothing(model)) for _ in range(spec.shards)]
    rule = rules.of(spec.inference.forget)
    learned = keyed.learn(model, taken.events, keys.labels, keys.groups, keys.stamps, taken.places, rule)
    if spec.shards == 1:
        return [_part(learned)]
    shards = np.array([names.shard_of(spec, label) for label in keys.labels])
    return [_part(_of(learned, np.flatnonzero(shards == shard))) for shard in range(spec.shards)]


def _of(learned: keyed.Learned, rows: keyed.Groups) -> keyed.Learned:
    """Some of the keys."""
    labels, *columns = learned.keys
    chosen = ByKey([labels[row] for row in rows.tolist()], *(column[rows] for column in columns))
    return keyed.Learned(learned.statistics[rows], chosen)


def _part(learned: keyed.Learned) -> dict[str, Any]:
    return {"n_events": int(learned.keys.counts.sum()), "statistics": learned.statistics, "keys": learned.keys}
