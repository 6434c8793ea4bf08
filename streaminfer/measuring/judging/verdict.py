"""Whether a posterior can be trusted now: the worst answer to four questions, with reasons and remedies.

fresh: is all data in it that should be? complete: is it of all events? computed right: is it the posterior of its
events? fits the data: does the model describe them? What is not known counts as `watch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

from streaminfer.measuring.judging.checks import CHECKS, QUESTIONS, Question
from streaminfer.measuring.judging.settings import Settings
from streaminfer.measuring.measurement import Status
from streaminfer.measuring.published import Published

Answer = Literal["trusted", "watch", "do_not_trust"]
ANSWERS: Final[tuple[Answer, ...]] = get_args(Answer)
FAR: Final = 10.0
"""Times the limit of age or of bad events from which on a posterior is not trusted."""
GROWN: Final = 2.0
"""A posterior with more than this many times the events of then is not the one that was measured."""
_RANK: Final[dict[Status, int]] = {"good": 0, "unknown": 1, "watch": 1, "fail": 2}


class Reason(NamedTuple):
    """Why one question has its answer."""

    question: Question
    status: Status
    sentence: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a posterior without measuring: its newest snapshot, what waits, and who lives."""

    version: int = 0
    """0: there is no posterior yet."""
    n_events: int = 0
    n_dead_lettered: int = 0
    n_lost: int = 0
    n_rejected: int = 0
    exactness: str = "exact"
    keyed: bool = False
    mixture: bool = False
    waiting_seconds: float = 0.0
    """How long ago the oldest event came that is not in the posterior; 0: none waits."""
    under_way: bool = False
    """Of a sampled posterior: whether chains are at the newest segment that is due."""
    segment_due: bool = True
    """Of a sampled posterior: whether the waiting events are enough for a new segment."""
    faults: tuple[str, ...] = ()
    """Of a sampled posterior: why its draws are not to be trusted, whatever is measured."""
    silent: tuple[str, ...] = ()
    """Processes that have not beaten for long."""
    alarm_at: int = -1
    """Events at the newest alarm of drift; -1: there was none."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst of all reasons. They are in the order of the questions, the worst of each question first."""

    verdict: Answer
    reasons: tuple[Reason, ...] = field(default=())

    def of(self, question: Question) -> tuple[Reason, ...]:
        return tuple(reason for reason in self.reasons if reason.question == question)


def answer(status: Status) -> Answer:
    """What one status means for the whole."""
    return ANSWERS[_RANK[status]]


def verdict(state: State, measured: Iterable[Published], settings: Settings) -> Verdict:
    """From the state of the posterior and the newest measurement of each check."""
    found = {each.measurement.check: each for each in measured if each.measurement.check in CHECKS}
    reasons = [
        *_fresh(state, settings),
        *_complete(state, settings),
        *_computed(state, found),
        *_fits(state, found),
    ]
    ordered = sorted(reasons, key=lambda each: (QUESTIONS.index(each.question), -_RANK[each.status]))
    return Verdict(ANSWERS[max(_RANK[each.status] for each in ordered)], tuple(ordered))


def _fresh(state: State, settings: Settings) -> Iterator[Reason]:
    waits, limit = state.waiting_seconds, settings.fresh_seconds
    if state.version == 0:
        yield Reason("fresh", "unknown", "There is no posterior yet.", "Send events, and start its services.")
    elif state.under_way:
        yield Reason("fresh", "good", "Draws of the newest segment are under way.")
    elif waits <= limit or not state.segment_due:
        yield Reason("fresh", "good", "All events that should be in the posterior are in it.")
    else:
        status: Status = "fail" if waits > FAR * limit else "watch"
        remedy = "See whether its services live, or add workers."
        yield Reason("fresh", status, f"Events have waited for {waits:.0f} s to be in the posterior.", remedy)
    if state.silent:
        names = ", ".join(state.silent[:5]) + (", …" if len(state.silent) > 5 else "")
        yield Reason("fresh", "watch", f"Not heard of for long: {names}.", "See the log of these processes.")


def _complete(state: State, settings: Settings) -> Iterator[Reason]:
    bad = {"dead-lettered": state.n_dead_lettered, "lost": state.n_lost, "rejected": state.n_rejected}
    total, limit = sum(bad.values()), settings.bad_share
    if state.version == 0:
        yield Reason("complete", "unknown", "There is no posterior yet.")
        return
    whole = max(1, state.n_events + state.n_dead_lettered + state.n_lost)
    share = min(1.0, total / whole)
    named = ", ".join(f"{count:,} {name}" for name, count in bad.items() if count)
    if share > limit:
        status: Status = "fail" if share > FAR * limit else "watch"
        remedy = "See `streaminfer dead-letters SPEC --summary`; lost events need a longer retention."
        yield Reason("complete", status, f"{100 * share:.2g}% of the events are not in it: {named}.", remedy)
    elif total:
        yield Reason("complete", "good", f"Nearly all events are in it; not in it: {named}.")
    else:
        yield Reason("complete", "good", f"It is of all {state.n_events:,} events.")


def _computed(state: State, found: dict[str, Published]) -> Iterator[Reason]:
    """Exact statistics are right by construction, and an audit proves it. All else must be measured."""
    exact = state.exactness == "exact"
    if exact:
        yield Reason("computed_right", "good", "Its method is exact.")
    for fault in state.faults:
        yield Reason("computed_right", "fail", f"{fault[:1].upper()}{fault[1:]}.")
    yield from _needed("audit" if exact else "coverage", "computed_right", state, found)
    if state.mixture:
        yield from _several_starts(state, found)
    others = set(found) - {"audit" if exact else "coverage", "starts"}
    for check in sorted(others):
        known = found[check].measurement.status != "unknown" or check == "draws"  # no R-hat is a reason too
        if CHECKS[check].question == "computed_right" and known and not _is_outgrown(found[check], state):
            yield _reason(found[check], state)


def _fits(state: State, found: dict[str, Published]) -> Iterator[Reason]:
    yield from _needed("calibration", "fits_the_data", state, found)
    moved = found.get("movement")
    if moved is not None and moved.measurement.status != "unknown" and not _is_outgrown(moved, state):
        yield _reason(moved, state)
    if state.alarm_at >= 0 and state.n_events < GROWN * state.alarm_at:
        sentence = f"The data drifted: new events were predicted worse than earlier ones, at {state.alarm_at:,} events."
        yield Reason(
            "fits_the_data", "watch", sentence, "Forget old events (inference.forget), or react (drift.react)."
        )


def _needed(check: str, question: Question, state: State, found: dict[str, Published]) -> Iterator[Reason]:
    """What a question cannot be answered without."""
    if check in found:
        yield _reason(found[check], state)
    elif state.keyed:
        yield Reason(question, "unknown", "Every key has a posterior of its own, and those of keys are not measured.")
    else:
        remedy = "Let a monitor run: `streaminfer up` starts one."
        yield Reason(question, "unknown", f"No monitor has measured it yet (check {check}).", remedy)


def _several_starts(state: State, found: dict[str, Published]) -> Iterator[Reason]:
    """A mixture has many modes: it is at most watched until several starts agree."""
    if "starts" in found and found["starts"].measurement.status == "good":
        yield _reason(found["starts"], state)
        return
    said = found["starts"].measurement.sentence if "starts" in found else "No monitor has tried several starts yet."
    remedy = found["starts"].measurement.remedy if "starts" in found else ""
    yield Reason("computed_right", "watch", said, remedy)


def _is_outgrown(published: Published, state: State) -> bool:
    """Whether a good result is of a posterior that was much smaller."""
    return published.measurement.status == "good" and state.n_events > GROWN * published.moment.n_events


def _reason(published: Published, state: State) -> Reason:
    """What a check says, unless it is of a posterior that was much smaller."""
    found, then = published.measurement, published.moment.n_events
    question = CHECKS[found.check].question
    if _is_outgrown(published, state):
        sentence = f"The check {found.check} was last made of {then:,} events, and there are {state.n_events:,} now."
        return Reason(question, "unknown", sentence, "Wait for the monitor.")
    return Reason(question, found.status, found.sentence, found.remedy)
