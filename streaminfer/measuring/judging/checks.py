"""The checks of the monitor, one row each: which question about a posterior a check answers, and how it is judged.

A limit counts as passed only if the number is beyond it by three of its standard errors, so that noise alone says
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, get_args

from streaminfer.measuring.judging.settings import Settings
from streaminfer.measuring.measurement import Measurement, Status, Value

Question = Literal["fresh", "complete", "computed_right", "fits_the_data"]
QUESTIONS: Final[tuple[Question, ...]] = get_args(Question)
ERRORS: Final = 3.0
"""Standard errors by which a limit must be passed."""
VAGUE: Final = 0.05
"""A standard error of a coverage above which its limits are not told apart."""
TOO_WIDE: Final = 0.8
"""A true sd below this part of the published one is told."""
R_HAT: Final = (1.01, 1.05)
"""Above the first the draws are watched, above the second the chains disagree (Vehtari et al. 2021)."""
WORTH: Final = (100.0, 10.0)
"""Effective draws of a chain, below which they are watched, and below which nothing is known (the same)."""
K_HAT: Final = (0.7, 1.0)
"""Of importance weights: above the first they hardly correct, above the second not at all (Vehtari et al. 2024)."""
SAME: Final = 1e-7
"""Parts of a statistic by which sums in another order may differ."""
HALF: Final = 0.5
"""Of an event: the weight of all events is exact, so one that was lost is seen among any number of them."""
PREDICTED: Final = (0.05, 0.15)
"""How far what a predictive 95% interval really holds may be from 0.95, and probabilities from frequencies."""
MOVED: Final = 3.0
"""Times that a posterior may move as far as one of a right model does, while its events double."""
NATS: Final = 1.0
"""Kullback-Leibler divergence from the posterior of simulated data, above which it is told."""


class Judged(NamedTuple):
    """What values mean."""

    status: Status
    sentence: str
    remedy: str = ""


Judge = Callable[[Mapping[str, Sequence[Value]], Settings], Judged]


class Check(NamedTuple):
    """One row."""

    question: Question
    judge: Judge


def judge(check: str, values: Sequence[Value], settings: Settings) -> Judged:
    """What the values of a check mean; unknown if they do not say it. Raises KeyError for a check that is not one."""
    named: dict[str, list[Value]] = {}
    for value in values:
        if value.value is not None:
            named.setdefault(value.name, []).append(value)
    return CHECKS[check].judge(named, settings)


def judged(found: Measurement, settings: Settings) -> Measurement:
    """A measurement with the status, sentence and remedy that its values mean."""
    status, sentence, remedy = judge(found.check, found.values, settings)
    return replace(found, status=status, sentence=sentence, remedy=remedy)


def _missing(what: str) -> Judged:
    return Judged("unknown", f"{what} was not measured.")


def _number(value: Value) -> float:
    return 0.0 if value.value is None else value.value


def _most(value: Value) -> float:
    """The largest number that a value may well be."""
    return _number(value) + ERRORS * (value.se or 0.0)


def _least(value: Value) -> float:
    return _number(value) - ERRORS * (value.se or 0.0)


def _of(value: Value) -> str:
    return f" of {value.coordinate}" if value.coordinate else ""


_WIDER: Final = "Use larger minibatches, visit the data again (method memoized), or use a sampler."


def _coverage(values: Mapping[str, Sequence[Value]], settings: Settings) -> Judged:
    """What 95% intervals really hold, and whether they are wider than they need be."""
    found = values.get("coverage")
    if not found:
        return _missing("What a 95% interval really holds")
    limits, worst = settings.coverage, min(found, key=_most)
    said = f"The 95% interval{_of(worst)} really holds {100 * _number(worst):.0f}%."
    if _most(worst) < limits.watch:
        return Judged("fail" if _most(worst) < limits.fail else "watch", said, _WIDER)
    vague = [each for each in found if (each.se or 0.0) > VAGUE and _least(each) < limits.fail]
    if vague:
        blur = max(vague, key=lambda value: value.se or 0.0)
        about = f"{100 * _number(blur):.0f}%, with a standard error of {100 * (blur.se or 0.0):.0f}%"
        text = f"What the 95% interval{_of(blur)} really holds is hardly known: {about}."
        return Judged("unknown", text, "Raise monitor.draws and monitor.events, or draw more.")
    wide = min(values.get("ratio", ()), key=_most, default=None)
    if wide is not None and _most(wide) < TOO_WIDE:
        text = f"The interval{_of(wide)} is too wide: the true sd is {_number(wide):.2g} times the published one."
        return Judged("watch", text, _WIDER)
    lowest = min(found, key=_number)
    return Judged("good", f"The 95% interval{_of(lowest)} really holds {100 * _number(lowest):.0f}%, others no less.")


def _stein(values: Mapping[str, Sequence[Value]], _settings: Settings) -> Judged:
    """A distance in posterior sds; coverage says what it means, so alone it is at most watched."""
    found = values.get("delta")
    if not found:
        return _missing("The Stein discrepancy")
    said = f"The posterior is {_number(found[0]):.2g} sd from what it should be, by its Stein discrepancy."
    return Judged("watch", said, "See the check coverage.") if _least(found[0]) > 1.0 else Judged("good", said)


def _draws(values: Mapping[str, Sequence[Value]], _settings: Settings) -> Judged:
    """R-hat, and what draws are worth. `chains` is how many there are."""
    worth = [*values.get("ess_bulk", ()), *values.get("ess_tail", ())]
    if not values.get("r_hat") or not worth:
        return _missing("Whether the chains agree")
    highest, least = max(values["r_hat"], key=_number), min(worth, key=_number)
    chains = _number(values["chains"][0]) if values.get("chains") else 1.0
    said = (
        f"R-hat{_of(highest)} is {_number(highest):.3f}, and the draws are worth {_number(least):.0f} independent "
        f"ones{_of(least)}."
    )
    watched = _number(highest) > R_HAT[0] or _number(least) < WORTH[0] * chains
    if not watched:
        return Judged("good", said)
    failed = _number(highest) > R_HAT[1] or _number(least) < WORTH[1] * chains
    return Judged("fail" if failed else "watch", said, "Raise inference.draws or inference.thin, or warm up longer.")


def _combined(values: Mapping[str, Sequence[Value]], _settings: Settings) -> Judged:
    found = values.get("k_hat")
    if not found:
        return _missing("How far the exact density corrects the combination")
    k, limit = _number(found[0]), _number(values["k_hat_limit"][0]) if values.get("k_hat_limit") else K_HAT[0]
    said = f"The importance weights of the combination have k-hat {k:.2f}; up to {limit:.2f} they correct it."
    if k <= limit:
        return Judged("good", said)
    return Judged("fail" if k > K_HAT[1] else "watch", said, "Use fewer subposteriors, or another combiner.")


def _audit(values: Mapping[str, Sequence[Value]], settings: Settings) -> Judged:
    """Exact models: a difference of statistics. Others: coverage by a long exact chain."""
    if values.get("coverage"):
        return _coverage(values, settings)
    found = values.get("difference")
    if not found:
        return _missing("Whether the posterior is that of its log")
    more = _number(values["events"][0]) if values.get("events") else 0.0
    if _number(found[0]) <= SAME and abs(more) <= HALF:
        return Judged("good", "The events in the log give the same posterior.")
    count = f" It has {abs(more):.3g} events too {'many' if more > 0 else 'few'}." if abs(more) > HALF else ""
    said = f"The posterior is not that of the events in the log.{count}"
    return Judged("fail", said, "Compute it again from the log under a new name, compare, and report it.")


def _starts(values: Mapping[str, Sequence[Value]], _settings: Settings) -> Judged:
    """How many other starts of a mixture give the same posterior; several must, and none may be better."""
    agreeing, behind = values.get("agreeing"), values.get("behind")
    if not agreeing:
        return _missing("Whether several starts agree")
    remedy = "Start anew with another model.seed, or another number of components."
    if behind and _least(behind[0]) > 0:
        said = f"Another start explains the events better, by {_number(behind[0]):.2g} nats an event."
        return Judged("watch", said, remedy)
    if _number(agreeing[0]) < 2:
        return Judged("watch", f"{_number(agreeing[0]):.0f} other starts agree with the posterior.", remedy)
    return Judged("good", f"{_number(agreeing[0]):.0f} other starts agree with the posterior.")


def _evidence(values: Mapping[str, Sequence[Value]], _settings: Settings) -> Judged:
    """Bidirectional Monte Carlo judges the method on simulated data, not this posterior: at most watched."""
    found = values.get("kl")
    if not found:
        return _missing("The divergence from posteriors of simulated data")
    low, high = (each if each is not None else _number(found[0]) for each in (found[0].lower, found[0].upper))
    said = f"On simulated data the method is {low:.2g} to {high:.2g} nats from the true posterior."
    return Judged("watch", said, _WIDER) if low > NATS else Judged("good", said)


def _calibration(values: Mapping[str, Sequence[Value]], _settings: Settings) -> Judged:
    """By effect size: a test would alarm in the end, as no model is right. `reliability` is of 0/1 targets."""
    found = values.get("coverage")
    if not found:
        return _missing("What a predictive interval really holds")
    worst = max(found, key=lambda value: abs(_number(value) - 0.95) - ERRORS * (value.se or 0.0))
    away = abs(_number(worst) - 0.95) - ERRORS * (worst.se or 0.0)
    said = f"A predictive 95% interval{_of(worst)} really holds {100 * _number(worst):.0f}% of new events."
    off = max(values.get("reliability", ()), key=_least, default=None)
    if off is not None and _least(off) > away:
        away = _least(off)
        said = f"Predicted probabilities{_of(off)} are {100 * _number(off):.0f} points from what happens, on average."
    if away <= PREDICTED[0]:
        return Judged("good", said)
    return Judged("fail" if away > PREDICTED[1] else "watch", said, "The model does not fit: try another one.")


def _movement(values: Mapping[str, Sequence[Value]], _settings: Settings) -> Judged:
    found = values.get("movement")
    if not found:
        return _missing("How far the posterior moves")
    said = f"The posterior moves {_number(found[0]):.2g} times as far as one of a right model does."
    remedy = "The model may not fit, or the data drifts: forget old events, or try another model."
    return Judged("watch", said, remedy) if _least(found[0]) > MOVED else Judged("good", said)


CHECKS: Final[Mapping[str, Check]] = {
    "coverage": Check("computed_right", _coverage),
    "stein": Check("computed_right", _stein),
    "draws": Check("computed_right", _draws),
    "combined": Check("computed_right", _combined),
    "audit": Check("computed_right", _audit),
    "starts": Check("computed_right", _starts),
    "evidence": Check("computed_right", _evidence),
    "calibration": Check("fits_the_data", _calibration),
    "movement": Check("fits_the_data", _movement),
}
"""What is not in the table is not a check, and no verdict depends on it."""
