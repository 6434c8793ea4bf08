"""What a report says, section by section, from the monitor's memory: the dashboard's questions in the same order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streaminfer.http.report.figures import Figure, Line, Mark
from streaminfer.measuring.judging.verdict import Verdict
from streaminfer.measuring.measurement import Measurement, Value
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.monitoring.memory.history import HALF_WIDTH
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.sampling import flat
from streaminfer.wire.snapshots import iso

DIAGONAL: Final = frozenset({"pit"})
"""Curves that should be their diagonal."""
MOST_ROWS: Final = 200
SMALL: Final = 0.1
"""Posterior sds: an interval that is off by less still holds 95%."""
MOST_CURVES: Final = 12
CALIBRATION: Final = frozenset({"calibration", "movement"})


@dataclass(frozen=True)
class Table:
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    title: str
    why: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


def sections(memory: Memory, verdict: Verdict) -> list[Section]:
    """All of them; those with nothing to show are left out."""
    found = None if memory.posterior is None else memory.posterior.found
    newest = {check: each.measurement for (check, _), each in memory.measurements.newest.items()}
    made = [
        _verdict(verdict),
        _parameters(found, newest.get("coverage")),
        _intervals(memory),
        _score(memory),
        _checks("Calibration", "Whether events fall where the posterior expects them.", newest, CALIBRATION),
        _checks("Is it computed right?", "Measured against the exact density of the same events.", newest, None),
        _flow(memory, found),
        _letters(memory),
        _picture(newest.get("coverage"), newest.get("draws")),
    ]
    return [each for each in made if each.lines or each.tables or each.figures]


def figures(made: Sequence[Section]) -> list[Figure]:
    """All pictures of a report."""
    return [figure for each in made for figure in each.figures]


def _verdict(verdict: Verdict) -> Section:
    rows = tuple((r.question.replace("_", " "), r.status, r.sentence, r.remedy) for r in verdict.reasons)
    why = "The worst answer to four questions. What is not known counts as watch."
    said = (verdict.verdict.replace("_", " "),)
    return Section(
        "Can this posterior be trusted?", why, said, (Table(("question", "status", "why", "what to do"), rows),)
    )


def _number(x: float | None) -> str:
    return "–" if x is None else f"{x:.5g}"


def _parameters(found: PosteriorSnapshot | None, coverage: Measurement | None) -> Section:
    why = "Mean, sd and 95% interval of each, and what that interval really holds of the true posterior."
    title = "Parameters"
    if found is None or found.key is not None or found.spec.key is not None:
        return Section(title, why)
    if found.topics is not None:
        top = tuple((str(i), ", ".join(word for word, _ in words)) for i, words in enumerate(found.topics.top(10)))
        return Section(title, "The likeliest words of each topic.", (), (Table(("topic", "words"), top),))
    holds = {v.coordinate: v for v in (coverage.values if coverage else ()) if v.name == "coverage"}
    rows = tuple(_row(name, mean, sd, holds) for name, mean, sd in _numbers(found))
    heads = ("parameter", "mean", "sd", "95% interval", "really holds")
    more = (f"the first {MOST_ROWS} of {len(rows)}",) if len(rows) > MOST_ROWS else ()
    return Section(title, why, more, (Table(heads, rows[:MOST_ROWS]),))


def _numbers(found: PosteriorSnapshot) -> Iterator[tuple[str, float, float]]:
    moments = found.moments
    named = flat.names({name: each.mean.shape for name, each in moments.items()}, found.spec.model.labels)
    means, sds = ([x for each in moments.values() for x in getattr(each, of).ravel().tolist()] for of in ("mean", "sd"))
    return zip(named, means, sds, strict=True)


def _row(name: str, mean: float, sd: float, holds: Mapping[str, Any]) -> tuple[str, ...]:
    known = holds.get(name)
    real = "not measured" if known is None or known.value is None else f"{100 * known.value:.0f}%"
    interval = f"{_number(mean - HALF_WIDTH * sd)} to {_number(mean + HALF_WIDTH * sd)}"
    return name, _number(mean), _number(sd), interval, real


def _marks(document: Mapping[str, Any]) -> tuple[Mark, ...]:
    return tuple(Mark(each["at"] / 1000, "drift") for each in document["drift"])


def _intervals(memory: Memory) -> Section:
    wanted = range(min(MOST_CURVES, len(memory.history.coordinates)))
    document = memory.history.document(wanted, 0, 500)
    at = [ms / 1000 for ms in document["at"]]
    pictures = tuple(
        Figure(name, at, (Line("mean", each["mean"]),), (each["lower"], each["upper"]), True, marks=_marks(document))
        for name, each in document["parameters"].items()
    )
    return Section("Intervals over time", "The band is the 95% interval of each version.", (), (), pictures)


def _score(memory: Memory) -> Section:
    document = memory.history.document((), 0, 500)
    why = "The mean log probability of new events before they were learned from; higher is better."
    if all(each is None for each in document["scores"]):
        return Section("How well it predicts", why)
    at = [ms / 1000 for ms in document["at"]]
    picture = Figure(
        "log score of new events", at, (Line("score", document["scores"]),), None, True, marks=_marks(document)
    )
    return Section("How well it predicts", why, (), (), (picture,))


def _checks(title: str, why: str, newest: Mapping[str, Measurement], names: frozenset[str] | None) -> Section:
    chosen = [m for check, m in sorted(newest.items()) if (check in names if names else check not in CALIBRATION)]
    rows = tuple((m.check, m.status, m.sentence, m.remedy) for m in chosen)
    tables = (Table(("check", "status", "found", "what to do"), rows),) if rows else ()
    return Section(title, why, (), tables, tuple(figure for m in chosen for figure in _curves(m)))


def _curves(found: Measurement) -> Iterator[Figure]:
    for name, curve in found.curves.items():
        if curve.ndim == 2 and curve.shape[1] > 1 and len(curve):
            ordered = curve[curve[:, 0].argsort()]
            lines = tuple(
                Line(f"{name} {i}" if curve.shape[1] > 2 else name, ordered[:, i].tolist(), dashed=i > 1)
                for i in range(1, curve.shape[1])
            )
            if name in DIAGONAL:
                lines = (*lines, Line("as it should be", ordered[:, 0].tolist(), dashed=True))
            yield Figure(f"{found.check}: {name.replace('_', ' ')}", ordered[:, 0].tolist(), lines)


def _flow(memory: Memory, found: PosteriorSnapshot | None) -> Section:
    rows = tuple(
        (each["service"], each["instance"], each["state"], str(each["restarts"]), each["last_beat_at"])
        for each in memory.services.documents(memory.now())
    )
    lines: tuple[str, ...] = ()
    if found is not None:
        counts = found.snapshot.counts
        keys = f", {counts.n_keys:,} keys" if found.spec.key is not None else ""
        lines = (f"version {found.version} of {iso(found.snapshot.created_at)}, {found.n_events:,} events{keys}",)
    heads = ("service", "instance", "state", "restarts", "last sign of life")
    return Section(
        "Flow", "Which processes ran, and when they were last heard of.", lines, (Table(heads, rows),) if rows else ()
    )


def _letters(memory: Memory) -> Section:
    listed, _ = memory.dead_letters.page(None, 20)
    rows = tuple((f"{each['topic']}-{each['partition']}", str(each["offset"]), each["reason"]) for each in listed)
    tables = (Table(("partition", "offset", "reason"), rows),) if rows else ()
    return Section("Dead letters", "Events that could not be read, newest first.", (), tables)


def _picture(coverage: Measurement | None, draws: Measurement | None) -> Section:
    """How far each mean is off, and how much of it chance explains: that of the draws, and of what was measured."""
    why = (
        "How far each mean is from the true posterior's, in posterior standard deviations. What chance explains falls "
        "with more draws; bias does not."
    )
    found = {name: _of(coverage, name) for name in ("shift", "ratio")}
    effective = _of(draws, "ess_bulk")
    rows = []
    for name, shift in sorted(found["shift"].items(), key=lambda each: -abs(each[1].value or 0.0)):
        if shift.value is None:
            continue
        worth, ratio = effective.get(name), found["ratio"].get(name)
        drawn = worth.value**-0.5 if worth is not None and worth.value else 0.0
        off, chance = abs(shift.value), HALF_WIDTH * math.hypot(shift.se or 0.0, drawn)
        mostly = "small" if off <= SMALL else "chance" if off <= chance else "bias"
        rows.append((name, f"{off:.2g}", f"{chance:.2g}", _number(None if ratio is None else ratio.value), mostly))
    heads = ("parameter", "mean is off by", "chance explains up to", "true sd / sd", "mostly")
    return Section("Where the error comes from", why, (), (Table(heads, tuple(rows[:MOST_ROWS])),) if rows else ())


def _of(found: Measurement | None, name: str) -> dict[str, Value]:
    """The values of one name, by coordinate."""
    return {} if found is None else {each.coordinate: each for each in found.values if each.name == name}
