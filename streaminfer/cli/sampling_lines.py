"""What `snapshot` says of the draws that a posterior is made of, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.plurals import counted
from streaminfer.sampling.pooled import trust
from streaminfer.sampling.pooled.shown import Combination, Shown
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.subsets import errors


def lines_of(found: PosteriorSnapshot) -> Iterator[str]:
    """A few lines; none if the posterior is not made of draws."""
    sampled, settings = found.snapshot.payload.sampled, found.spec.sampling
    if sampled is None or settings is None:
        return
    shown = sampled.shown
    yield draws_line(shown, settings)
    if shown.combined is not None:
        yield from _combined(shown, shown.combined)
    for fault in trust.faults(shown, settings.chains):
        yield f"not to be trusted: {fault}"
    yield from _steps(shown, settings)
    if shown.cut:
        yield (
            "retention removed events before all draws of their segment were made: this segment starts at what was left"
        )
    under_way = [each.number for each in shown.segments if each.number > shown.segment]
    if under_way:
        yield f"segment {max(under_way)} is under way, with more events"


def draws_line(shown: Shown, settings: Settings) -> str:
    """How many draws there are, of how many chains, and what they are worth."""
    if shown.combined is not None:
        return _parts_line(shown)
    draws = f"{counted(shown.n_draws, 'draw')} of {counted(settings.chains, 'chain')}"
    worth = f"worth {shown.n_effective_draws:,.0f} independent ones"
    if shown.complete:
        return f"segment {shown.segment} is complete: {draws}, {worth}"
    return f"segment {shown.segment} is not complete: the last half of its draws so far, {draws}, {worth}"


def _parts_line(shown: Shown) -> str:
    """Which draws were combined."""
    used = [part for part in shown.subposteriors if not part.why]
    draws = sum(part.n_draws for part in used)
    worth = f"each worth {shown.n_effective_draws:,.0f} independent ones or more"
    state = "complete" if shown.complete else "more is to come"
    return f"{draws:,} draws of {counted(len(used), 'subposterior')}, {worth}; {state}"


def _combined(shown: Shown, how: Combination) -> Iterator[str]:
    """How subposteriors were combined, whether that was corrected, and what is wrong with it."""
    weights = "" if how.weights is None else f" with {how.weights} weights"
    yield f"combined by {how.by}{weights}"
    if how.k_hat is not None and how.corrected:
        yield f"corrected by the exact density at {how.n_proposals:,} points: Pareto k {how.k_hat:.2f}"
    elif how.k_hat is not None:
        yield (
            f"not corrected: Pareto k {how.k_hat:.2f} is above {how.threshold:.2f}, so that the exact density at "
            f"{how.n_proposals:,} points says too little; this may be far from the posterior"
        )
    else:
        yield "not corrected by the exact density, so it may be far from the posterior"
    for part in shown.subposteriors:
        if part.left_out:
            yield f"without subposterior {part.subposterior} and its events: {part.why}"
        elif part.why:
            yield f"subposterior {part.subposterior} counts by its share of the prior: {part.why}"
    yield from (f"warning: {text}" for text in how.warnings)


def _steps(shown: Shown, settings: Settings) -> Iterator[str]:
    """How the chains move."""
    if shown.acceptance is not None:
        yield f"{100 * shown.acceptance:.3g}% of proposals accepted"
    if (settings.order is not None or settings.bound is not None) and shown.counters.n_proposed:
        yield from _decisions(shown, settings)
    if shown.size:
        bias = None if settings.step is None else settings.step.bias
        wrong = "" if bias is None else f", chosen so that variances are at most about {100 * bias:.3g}% wrong"
        yield f"steps of size {shown.size:.3g}{wrong}"
    if shown.counters.n_undone:
        yield f"{counted(shown.counters.n_undone, 'step')} left the finite numbers and {_were(shown)} undone"


def _decisions(shown: Shown, settings: Settings) -> Iterator[str]:
    """What decisions on subsets read, and how wrong they may be. Some steps also read events for something else."""
    events = shown.counters.n_read / shown.counters.n_proposed
    what = "decision" if settings.bound is None and settings.correct is None else "step"
    yield f"a {what} reads {events:,.3g} events on average, {100 * (shown.fraction or 0):.3g}% of all"
    wrong, test = errors.of_segments(settings, [part.n_events for part in shown.subposteriors]), settings.stopping
    if wrong is not None and test is not None:
        normal = ", if means of minibatches are normal" if test.rule == "t" else ""
        yield f"a probability of being accepted is at most {wrong:.2g} wrong{normal}"


def _were(shown: Shown) -> str:
    return "was" if shown.counters.n_undone == 1 else "were"
