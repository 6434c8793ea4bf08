"""The spec's section `drift`: when to raise an alarm, and what to do then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streaminfer.models.options import Integer, Number, Option, Section, WordOr
from streaminfer.variational.settings import Drift, Reaction

REPORT: Final = "report"

REACTION: Final = Section(
    (
        Option(
            "half_life_events",
            Number(minimum=0.01, maximum=1e15),
            "While the reaction lasts, everything learned before counts half after this many further events.",
        ),
        Option("for_events", Integer(1, 10**15), "How many events after an alarm the reaction lasts."),
    )
)

DRIFT: Final = Section(
    (
        Option(
            "events_per_false_alarm",
            Number(minimum=1.0, maximum=1e15),
            "Without drift there is on average at most one alarm in this many events.",
            1e7,
        ),
        Option(
            "block_events",
            Integer(1, 1_000_000),
            "Scores are compared in blocks of at least this many events of a partition.",
            256,
        ),
        Option("react", WordOr(REPORT, REACTION), "What an alarm does beyond being reported.", REPORT),
    )
)


def made(options: Mapping[str, Any]) -> Drift:
    """From options that `DRIFT` has checked."""
    react = options["react"]
    return Drift(**{**options, "react": None if react == REPORT else Reaction(**react)})
