"""The field `sampling` of a manifest: which draws a posterior is made of, and what is under way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from streaminfer.models import times
from streaminfer.models.model import Vector
from streaminfer.sampling.pooled.pooling import MOST_BYTES, MOST_RETAINED
from streaminfer.sampling.pooled.shown import NOTHING, ChainShown, Combination, Fixed, Part, Sampled, Shown
from streaminfer.sampling.states import STATE_PHASES
from streaminfer.wire.sampled import chains
from streaminfer.wire.sampled.chains import check_numbers, require

_COUNTS: Final = ("n_chains", "n_draws", "n_retained", "n_scored")
_PLAIN: Final = ("segment", "complete", "cut", "n_draws", "size", "noise", "acceptance", "fraction", "n_scored")
_CHAIN_BYTES: Final = 32
"""The most bytes of a chain, of a span, and of a subposterior or its segment."""
_SPAN_BYTES: Final = 24
_SUBPOSTERIOR_BYTES: Final = 40
_STEP_BYTES: Final = 9
_COMBINED_BYTES: Final = 128
_LETTER_BYTES: Final = 4
MOST_WARNINGS: Final = 20


def fields(sampled: Sampled) -> dict[str, Any]:
    """What the manifest says of draws; they themselves are in its payload."""
    shown = sampled.shown
    return {
        **{name: getattr(shown, name) for name in _PLAIN},
        **shown.counters._asdict(),
        "n_chains": len(shown.chains),
        "n_retained": len(sampled.draws),
        "segments": [{**each._asdict(), "spans": chains.span_fields(each.spans)} for each in shown.segments],
        "subposteriors": [each._asdict() for each in shown.subposteriors],
        "combined": None if shown.combined is None else shown.combined._asdict(),
        "chains": [each._asdict() for each in shown.chains],
    }


def most_bytes(sampled: Sampled) -> int:
    """More than those fields need in a manifest, beyond what every one has room for."""
    shown = sampled.shown
    n_spans = sum(len(each.spans) for each in shown.segments)
    n_subposteriors = len(shown.segments) + len(shown.subposteriors)
    texts = [part.why for part in shown.subposteriors]
    if shown.combined is not None:
        texts += [shown.combined.by, shown.combined.weights or "", *shown.combined.warnings]
    return (
        _CHAIN_BYTES * len(shown.chains)
        + _SPAN_BYTES * n_spans
        + _SUBPOSTERIOR_BYTES * n_subposteriors
        + _STEP_BYTES * sum(len(part.steps) for part in shown.subposteriors)
        + (0 if shown.combined is None else _COMBINED_BYTES)
        + sum(_LETTER_BYTES * len(text) + _STEP_BYTES for text in texts)
    )


def sampled(found: Mapping[str, Any], numbers: Vector, size: int) -> Sampled:
    """What the manifest says, with the draws of its payload, each of `size` numbers; raises BadValue."""
    check_numbers(found, _COUNTS)
    n_retained = found["n_retained"]
    most = min(MOST_RETAINED, MOST_BYTES // (8 * max(1, size)))
    require(n_retained <= most, "n_retained", f"must be 0 to {most}", n_retained)
    require(numbers.size == n_retained * size, "n_retained", f"must be of {size} numbers each", numbers.size)
    return Sampled(numbers.reshape(n_retained, size).copy(), _shown(found))


def _shown(found: Mapping[str, Any]) -> Shown:
    require(found["segment"] >= NOTHING, "segment", f"must be {NOTHING} or more", found["segment"])
    empty = found["segment"] == NOTHING and found["n_draws"] > 0
    require(not empty, "n_draws", "must be 0 if no segment is shown", found["n_draws"])
    for name in ("size", "noise", "acceptance", "fraction"):
        number = found[name]
        known = number is None or 0 <= number < math.inf
        require(known, name, "must be 0 or more, and finite", number)
    accepted = found["acceptance"] is None or found["acceptance"] <= 1
    require(accepted, "acceptance", "must be 0 to 1", found["acceptance"])
    parts = tuple(_part(each) for each in found["subposteriors"])
    _check_rising([part.subposterior for part in parts], "subposteriors")
    places = tuple(_chain(each) for each in found["chains"])
    _check_rising([chain.unit for chain in places], "chains")
    require(found["n_chains"] == len(places), "n_chains", f"must be the {len(places)} chains", found["n_chains"])
    retained = sum(chain.n_retained for chain in places)
    rule = f"must be at most the {found['n_retained']} of all together"
    require(retained <= found["n_retained"], "n_retained", rule, retained)
    return Shown(
        **{name: found[name] for name in _PLAIN},
        segments=_segments(found["segments"]),
        counters=chains.counters_of(found),
        subposteriors=parts,
        chains=places,
        combined=None if found["combined"] is None else _combination(found["combined"]),
    )


def _segments(found: Sequence[Mapping[str, Any]]) -> tuple[Fixed, ...]:
    _check_rising([each["subposterior"] for each in found], "segments")
    partitions: set[int] = set()
    made = []
    for each in found:
        check_numbers(each, ("number", "fixed_at"))
        cut_off, spans = each["cut_off"], chains.spans_of(each["spans"], name="spans")
        dated = cut_off is None or times.EARLIEST <= cut_off <= times.LATEST
        require(dated, "cut_off", "must be a time of the years 1 to 9999, or null", cut_off)
        shared = partitions.intersection(span.partition for span in spans)
        require(not shared, "spans", "must have partitions of one subposterior each", sorted(shared)[:3])
        partitions.update(span.partition for span in spans)
        made.append(Fixed(each["subposterior"], each["number"], spans, each["fixed_at"], cut_off))
    return tuple(made)


def _part(found: Mapping[str, Any]) -> Part:
    check_numbers(found, ("n_events", "n_draws"))
    require(found["segment"] >= NOTHING, "segment", f"must be {NOTHING} or more", found["segment"])
    worth = found["n_effective"]
    require(0 <= worth < math.inf, "n_effective", "must be 0 or more, and finite", worth)
    chains.check_text(found, ("why",))
    for step in found["steps"]:
        check_numbers({"steps": step}, ("steps",))
    return Part(**{**found, "steps": tuple(found["steps"])})


def _combination(found: Mapping[str, Any]) -> Combination:
    check_numbers(found, ("round", "n_proposals"))
    chains.check_text({**found, "weights": found["weights"] or ""}, ("by", "weights"))
    for name in ("k_hat", "threshold", "log_evidence", "log_evidence_error"):
        number = found[name]
        require(number is None or math.isfinite(number), name, "must be finite, or null", number)
    require(0 <= found["ambiguous"] <= 1, "ambiguous", "must be 0 to 1", found["ambiguous"])
    warnings = found["warnings"]
    require(len(warnings) <= MOST_WARNINGS, "warnings", f"must be at most {MOST_WARNINGS}", len(warnings))
    for text in warnings:
        chains.check_text({"warnings": text}, ("warnings",))
    return Combination(**{**found, "warnings": tuple(warnings)})


def _chain(found: Mapping[str, Any]) -> ChainShown:
    chains.check_phase(found, STATE_PHASES)
    check_numbers(found, ("step", "read_to", "n_retained"))
    return ChainShown(**found)


def _check_rising(numbers: list[int], name: str) -> None:
    """Indices of which each is there once."""
    rising = bool((np.diff([-1, *numbers]) > 0).all())
    require(rising, name, "must have different indices from 0 in rising order", numbers[:5])
