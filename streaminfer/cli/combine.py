"""compare combiners on the draws of subposteriors that are on the bus"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from streaminfer.bus.protocol import Bus, UnknownTopic
from streaminfer.cli.common import (
    LongTable,
    UsageError,
    add_bus,
    add_json,
    add_spec,
    bus_of,
    print_json,
)
from streaminfer.cli.terminal import StatusLine
from streaminfer.combining.part import Refused
from streaminfer.runtime.api import comparison
from streaminfer.runtime.api.comparison import Choice, Compared, Comparison, Reference, TooFewDraws, difference
from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.registry import schemas
from streaminfer.sampling import flat
from streaminfer.spec import Spec, load_spec

HEADER = ("combiner", "seconds", "shift", "least sd", "largest sd", "Pareto k", "correction")
ABOUT = "shift: of the mean that is furthest off, in posterior deviations; sd: as a multiple of the posterior's"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument(
        "--by", metavar="NAMES", default="all", help="all (default), or combiners: average,average:equal,gaussian,..."
    )
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    try:
        chosen = comparison.choices(options.by)
        comparison.settings_of(spec)
    except comparison.NoSuchCombiner as error:
        raise UsageError(f"--by: {error}") from error
    except comparison.NotCombined as error:
        raise UsageError(f"{options.spec}: {error}") from error
    with bus_of(options, spec, make=False) as bus:
        return _compare(spec, bus, chosen, options)


def _compare(spec: Spec, bus: Bus, chosen: Sequence[Choice], options: argparse.Namespace) -> int:
    status = StatusLine(at_once=False)
    try:
        found = Comparison(spec, bus, schemas.look_up(spec, bus, ["posterior", "draws", "events"]), status.show)
        reference = found.reference(chosen)
    except (TooFewDraws, UnknownTopic) as error:
        status.clear()
        _complain(spec, bus, options, str(error) if isinstance(error, TooFewDraws) else "")
        return 1
    except Refused as error:
        status.clear()
        print(f"streaminfer: the draws of {spec.name!r} cannot be combined: {error}", file=sys.stderr)
        return 1
    status.clear()
    if options.json:
        for choice in chosen:
            made = found.of(choice)
            status.clear()
            print_json(_document(spec, found, made, reference))
        return 0
    _print(spec, found, chosen, reference, status)
    return 0


def _complain(spec: Spec, bus: Bus, options: argparse.Namespace, why: str) -> None:
    """Which subposterior has too few draws, and why; or why there are none at all."""
    if not why:
        why = Connection(bus).why_missing(spec) or "start it with `streaminfer up`"
    where = f"no draws of {spec.name!r} on {options.bus} can be combined yet"
    for line in why.split("\n"):
        print(f"streaminfer: {where}: {line}", file=sys.stderr)


def _print(spec: Spec, found: Comparison, chosen: Sequence[Choice], reference: Reference, status: StatusLine) -> None:
    used = [each.shown for each in found.windows if each.part is not None]
    draws = f"{counted(sum(each.n_draws for each in used), 'draw')} of {counted(len(used), 'subposterior')}"
    print(f"{spec.name}: {draws}, {counted(found.n_events, 'event')}")
    for each in (each.shown for each in found.windows if each.part is None):
        left = "without it and its events" if each.left_out else "its share of the prior counts"
        print(f"subposterior {each.subposterior} has no draws: {each.why}; {left}")
    print(f"compared with {_named(found, reference)}\n{ABOUT}", flush=True)
    told = _warnings(found.of(reference.choice))  # those of the draws are the same for all combiners
    for text in told:
        print(f"warning: {text}", flush=True)
    table = LongTable([HEADER[0].ljust(max(len(each.name) for each in chosen)), *HEADER[1:]])
    for choice in chosen:
        made = found.of(choice)
        status.clear()
        table.add([_row(made, reference)])
        for text in _warnings(made):
            if text not in told:
                print(f"  warning: {text}", flush=True)


def _warnings(made: Compared) -> tuple[str, ...]:
    return () if made.said is None else made.said.warnings


def _named(found: Comparison, reference: Reference) -> str:
    """What all are compared with."""
    if reference.corrected:
        made = found.of(reference.choice).said
        k = "" if made is None or made.k_hat is None else f", Pareto k {made.k_hat:.2f}"
        return f"the posterior: {reference.choice.name}, corrected by the exact density{k}"
    why = found.without or "no correction is reliable"
    return f"the average with full weights, which is not corrected and may be far from the posterior: {why}"


def _row(made: Compared, reference: Reference) -> list[str]:
    if made.plain is None or made.said is None:
        return [made.choice.name, f"refused: {made.refused}"]
    away = difference(made.plain, reference)
    k_hat = "-" if made.corrected is None else "inf" if made.said.k_hat is None else f"{made.said.k_hat:.2f}"
    says = {None: "none", True: "reliable", False: "not reliable"}[made.is_reliable]
    return [
        made.choice.name,
        f"{made.seconds:.2f}",
        f"{away.shift:.2f}",
        f"{away.least:.2f}",
        f"{away.largest:.2f}",
        k_hat,
        says,
    ]


def _document(spec: Spec, found: Comparison, made: Compared, reference: Reference) -> dict[str, Any]:
    """Of one combiner; what is not known is null."""
    said = made.said
    return {
        "name": spec.name,
        "by": made.choice.by,
        "weights": made.choice.weights,
        "seconds": made.seconds,
        "refused": made.refused or None,
        "n_events": found.n_events,
        "compared_with": {
            "by": reference.choice.by,
            "weights": reference.choice.weights,
            "corrected": reference.corrected,
            "why_not": None if reference.corrected else found.without or "no correction is reliable",
            "parameters": _parameters(spec, reference.mean, reference.sd),
        },
        **_differences(spec, made, reference),
        "k_hat": None if said is None else said.k_hat,
        "threshold": None if said is None else said.threshold,
        "reliable": made.is_reliable,
        "log_evidence": None if said is None else said.log_evidence,
        "warnings": list(_warnings(made)),
        "subposteriors": [{**each.shown._asdict(), "steps": list(each.shown.steps)} for each in found.windows],
    }


def _differences(spec: Spec, made: Compared, reference: Reference) -> dict[str, Any]:
    """Of the combination itself, and of what its own correction makes of it."""
    plain, corrected = made.plain, made.corrected if made.is_reliable else None
    if plain is None:
        return {"parameters": None, "difference": None, "corrected_difference": None}
    return {
        "parameters": _parameters(spec, plain.statistics.mean, plain.statistics.variances**0.5),
        "difference": difference(plain, reference)._asdict(),
        "corrected_difference": None if corrected is None else difference(corrected, reference)._asdict(),
    }


def _parameters(spec: Spec, mean: Any, sd: Any) -> dict[str, Any]:
    means, sds = (flat.unflatten(each[None], spec.target.shapes) for each in (mean, sd))
    return {name: {"mean": means[name][0].tolist(), "sd": sds[name][0].tolist()} for name in means}
