"""The spec's section `monitor`: what is measured of a posterior, how often, and which limits it is judged by.

None of it changes the posterior, so none of it is in the fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any, Final

from streaminfer.measuring.judging.settings import Audit, Bdmc, Coverage, Settings
from streaminfer.models.did_you_mean import unknown_name
from streaminfer.models.model import AnyModel
from streaminfer.models.options import Integer, Listing, Number, Option, OptionsError, Section, Text
from streaminfer.models.targets import target_of
from streaminfer.sampling import flat

MOST_NAMES: Final = 100_000
"""Coordinates that an estimand is looked for among."""
_NAMED: Final = 20
"""Coordinates that an error lists."""
_USUAL: Final = Settings()
_SHARE: Final = Number(above=0.0, maximum=1.0)
_PERIOD: Final = Number(minimum=1.0, maximum=1e9)

COVERAGE: Final = Section(
    (
        Option("watch", _SHARE, "Below this the verdict is watch.", _USUAL.coverage.watch),
        Option("fail", _SHARE, "Below this the verdict is do_not_trust.", _USUAL.coverage.fail),
    )
)
BDMC: Final = Section(
    (
        Option("every_seconds", _PERIOD, "Seconds from one run to the next.", _USUAL.bdmc.every_seconds),
        Option("datasets", Integer(1, 1000), "Data sets that are simulated.", _USUAL.bdmc.datasets),
        Option("temperatures", Integer(2, 1_000_000), "Steps from prior to posterior.", _USUAL.bdmc.temperatures),
        Option("events", Integer(1, 1_000_000), "Events of each data set.", _USUAL.bdmc.events),
    )
)
AUDIT: Final = Section(
    (Option("every_seconds", _PERIOD, "Seconds from one audit to the next.", _USUAL.audit.every_seconds),)
)
MONITOR: Final = Section(
    (
        Option("share", _SHARE, "The part of one core that measuring may take.", _USUAL.share),
        Option("events", Integer(1, 10_000_000), "Events that are held for scores and audits.", _USUAL.events),
        Option("draws", Integer(10, 100_000), "Draws of the posterior for each measurement.", _USUAL.draws),
        Option(
            "estimands",
            Listing(Text(), minimum=0, maximum=1000),
            "The numbers to measure, such as weights[sqm]. An empty list means the first 16; log_density always is.",
            [],
        ),
        Option("coverage", COVERAGE, "What a 95% interval must really hold.", {}),
        Option(
            "fresh_seconds",
            Number(above=0.0, maximum=1e9),
            "Events that came longer ago than this must be in the posterior.",
            _USUAL.fresh_seconds,
        ),
        Option(
            "bad_share",
            Number(minimum=0.0, maximum=1.0),
            "The part of events that may be dead-lettered, lost or rejected.",
            _USUAL.bad_share,
        ),
        Option("bdmc", BDMC, "Bidirectional Monte Carlo: how well the method does on simulated data.", {}),
        Option("audit", AUDIT, "How often the posterior is computed once more from the log.", {}),
    )
)


def made(options: Mapping[str, Any]) -> Settings:
    """From options that `MONITOR` has checked."""
    return Settings(
        **{
            **options,
            "estimands": tuple(options["estimands"]),
            "coverage": Coverage(**options["coverage"]),
            "bdmc": Bdmc(**options["bdmc"]),
            "audit": Audit(**options["audit"]),
        }
    )


def check(kind: str, model: AnyModel, key: str | None, settings: Settings) -> None:
    """Raises OptionsError if something is set that does not fit the model."""
    limits = settings.coverage
    if limits.fail > limits.watch:
        raise OptionsError("coverage.fail", f"must not be above coverage.watch, which is {limits.watch:g}", limits.fail)
    why = _obstacle(kind, model, key)
    for name in ("estimands", "bdmc"):
        value = getattr(settings, name)
        if why is not None and value != getattr(_USUAL, name):
            shown = list(value) if name == "estimands" else asdict(value)
            raise OptionsError(name, f"means nothing {why}: leave it out", shown)
    if settings.estimands:
        _check_estimands(kind, model, settings.estimands)


def _obstacle(kind: str, model: AnyModel, key: str | None) -> str | None:
    """Why single numbers of the posterior are never measured."""
    if key is not None:
        return f"with the key {key}, as every key has a posterior of its own"
    if model.kind == "lda":
        return f"with the model {kind}, whose words are not known before"
    return None


def _check_estimands(kind: str, model: AnyModel, estimands: tuple[str, ...]) -> None:
    try:
        shapes = target_of(model).shapes
    except TypeError as error:
        rule = f"means nothing with the model {kind}, which has no densities to measure by: leave it out"
        raise OptionsError("estimands", rule, list(estimands)) from error
    known = list(islice(flat.names(shapes, model.labels), MOST_NAMES))
    for i, name in enumerate(estimands):
        if name not in known:
            near = unknown_name(name, known, "number of the posterior")
            listed = ", ".join(known)
            if len(known) > _NAMED:
                near = near.replace(f"known: {listed}", f"known: {', '.join(known[:_NAMED])}, …")
            raise OptionsError(f"estimands[{i}]", near, name)
