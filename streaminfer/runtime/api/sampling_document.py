"""The part `sampling` of a snapshot's JSON document."""

from __future__ import annotations

from typing import Any

from streaminfer.runtime import names
from streaminfer.sampling.pooled.shown import NOTHING, Combination, Sampled
from streaminfer.sampling.subsets import errors
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
        "acceptance_error": _acceptance_error(sampled, spec),
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
                "cut_off": None if each.cut_off is None else iso(int(1000 * each.cut_off)),
                "positions": {f"{topic}-{span.partition}": [span.start, span.end] for span in each.spans},
            }
            for each in shown.segments
        ],
    }


def _acceptance_error(sampled: Sampled, spec: Spec) -> float | None:
    """By how much the probability of being accepted may be wrong; null if decisions are exact."""
    if spec.sampling is None:
        return None
    return errors.of_segments(spec.sampling, [part.n_events for part in sampled.shown.subposteriors])


def _combined(found: Combination) -> dict[str, Any]:
    """Warnings are beside it."""
    return {name: value for name, value in found._asdict().items() if name != "warnings"}
