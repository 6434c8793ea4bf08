"""The part `sampling` of a snapshot's JSON document."""

from __future__ import annotations

from typing import Any

from streaminfer.runtime import names
from streaminfer.sampling.pooled.shown import NOTHING, Combination, Sampled
from streaminfer.spec import Spec
from streaminfer.wire.snapshots import iso


def of(sampled: Sampled, spec: Spec) -> dict[str, Any]:
    """What a snapshot says of its draws; a segment that does not exist is null."""
    shown, topic = sampled.shown, names.data_topic(spec)
    return {
        "segment": None if shown.segment == NOTHING else shown.segment,
        "complete": shown.complete,
        "cut": shown.cut,
        "n_chains": len(shown.chains),
        "n_draws": shown.n_draws,
        "n_effective_draws": shown.n_effective_draws,
        "n_retained": len(sampled.draws),
        "step": shown.size,
        "noise": shown.noise,
        "acceptance": shown.acceptance,
        "fraction": shown.fraction,
        "counters": shown.counters._asdict(),
        "n_scored": shown.n_scored,
        "subposteriors": [{**each._asdict(), "steps": list(each.steps)} for each in shown.subposteriors],
        "combined": None if shown.combined is None else _combined(shown.combined),
        "chains": [each._asdict() for each in shown.chains],
        "segments": [
            {
                "subposterior": each.subposterior,
                "number": each.number,
                "fixed_at": iso(each.fixed_at),
                "positions": {f"{topic}-{span.partition}": [span.start, span.end] for span in each.spans},
            }
            for each in shown.segments
        ],
    }


def _combined(found: Combination) -> dict[str, Any]:
    """Warnings are beside it."""
    return {name: value for name, value in found._asdict().items() if name != "warnings"}
