"""The verdict is the worst of four questions; every rule both ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streaminfer.measuring.judging.checks import QUESTIONS
from streaminfer.measuring.judging.settings import Settings
from streaminfer.measuring.judging.verdict import Answer, State, Verdict, answer, verdict
from streaminfer.measuring.measurement import Measurement, Status
from streaminfer.measuring.published import Moment, Published

SETTINGS = Settings()
EXACT = State(version=9, n_events=1000)
BOUND = replace(EXACT, exactness="bound")
MIXTURE = replace(BOUND, mixture=True)


def said(check: str, status: Status = "good", n_events: int = 1000) -> Published:
    found = Measurement(check, status, f"{check} is {status}.", "" if status == "good" else f"Mend {check}.")
    return Published("f", "demo.monitor", 0, Moment(9, n_events=n_events), found)


GOOD = [said("audit"), said("calibration"), said("coverage"), said("starts"), said("draws")]


def judge(state: State, *changed: Published, without: str = "", settings: Settings = SETTINGS) -> Verdict:
    found = {each.measurement.check: each for each in [*GOOD, *changed]}
    found.pop(without, None)
    return verdict(state, found.values(), settings)


RULES: list[tuple[str, Verdict, Answer]] = [
    ("all is good", judge(EXACT), "trusted"),
    ("approximate and measured", judge(BOUND), "trusted"),
    ("sampled and measured", judge(replace(EXACT, exactness="sampled")), "trusted"),
    ("no posterior", judge(State()), "watch"),
    # fresh
    ("just in time", judge(replace(EXACT, waiting_seconds=60)), "trusted"),
    ("late", judge(replace(EXACT, waiting_seconds=61)), "watch"),
    ("ten times as late", judge(replace(EXACT, waiting_seconds=601)), "do_not_trust"),
    ("late, but allowed", judge(replace(EXACT, waiting_seconds=61), settings=replace(SETTINGS, fresh_seconds=62)),
     "trusted"),
    ("draws under way", judge(replace(EXACT, waiting_seconds=601, under_way=True)), "trusted"),
    ("too few for a segment", judge(replace(EXACT, waiting_seconds=601, segment_due=False)), "trusted"),
    ("a silent process", judge(replace(EXACT, silent=("master-0",))), "watch"),
    # complete
    ("a few dead letters", judge(replace(EXACT, n_dead_lettered=10)), "trusted"),
    ("many dead letters", judge(replace(EXACT, n_dead_lettered=11)), "watch"),
    ("dead, lost and rejected count together",
     judge(replace(EXACT, n_dead_lettered=4, n_lost=4, n_rejected=4)), "watch"),
    ("lost", judge(replace(EXACT, n_lost=200)), "do_not_trust"),
    ("rejected", judge(replace(EXACT, n_rejected=200)), "do_not_trust"),
    ("many, but allowed", judge(replace(EXACT, n_lost=200), settings=replace(SETTINGS, bad_share=0.2)), "trusted"),
    # computed right
    ("not audited", judge(EXACT, without="audit"), "watch"),
    ("audit unknown", judge(EXACT, said("audit", "unknown")), "watch"),
    ("audit failed", judge(EXACT, said("audit", "fail")), "do_not_trust"),
    ("an exact one needs no coverage", judge(EXACT, without="coverage"), "trusted"),
    ("others do", judge(BOUND, without="coverage"), "watch"),
    ("others need no audit", judge(BOUND, without="audit"), "trusted"),
    ("coverage watched", judge(BOUND, said("coverage", "watch")), "watch"),
    ("coverage failed", judge(BOUND, said("coverage", "fail")), "do_not_trust"),
    ("draws that say little", judge(replace(BOUND, faults=("too few",))), "do_not_trust"),
    ("chains disagree", judge(BOUND, said("draws", "fail")), "do_not_trust"),
    ("chains of which nothing is known", judge(BOUND, said("draws", "unknown")), "watch"),
    ("a further check that is unknown", judge(BOUND, said("evidence", "unknown")), "trusted"),
    ("a further check that is not", judge(BOUND, said("evidence", "watch")), "watch"),
    ("measured when it was half as large", judge(BOUND, said("coverage", n_events=500)), "trusted"),
    ("measured when it was much smaller", judge(BOUND, said("coverage", n_events=499)), "watch"),
    ("a further check of when it was much smaller", judge(BOUND, said("evidence", n_events=1)), "trusted"),
    ("moved when it was much smaller", judge(EXACT, said("movement", n_events=1)), "trusted"),
    ("audited when it was much smaller", judge(EXACT, said("audit", n_events=499)), "watch"),
    ("failed when it was much smaller", judge(BOUND, said("coverage", "fail", 1)), "do_not_trust"),
    # mixtures
    ("several starts agree", judge(MIXTURE), "trusted"),
    ("no other starts", judge(MIXTURE, without="starts"), "watch"),
    ("starts unknown", judge(MIXTURE, said("starts", "unknown")), "watch"),
    ("starts disagree", judge(MIXTURE, said("starts", "watch")), "watch"),
    ("starts of no mixture", judge(BOUND, said("starts", "watch")), "trusted"),
    # fits the data
    ("not calibrated", judge(EXACT, without="calibration"), "watch"),
    ("badly calibrated", judge(EXACT, said("calibration", "fail")), "do_not_trust"),
    ("moves too far", judge(EXACT, said("movement", "watch")), "watch"),
    ("movement unknown", judge(EXACT, said("movement", "unknown")), "trusted"),
    ("a new alarm of drift", judge(replace(EXACT, alarm_at=501)), "watch"),
    ("an old alarm of drift", judge(replace(EXACT, alarm_at=500)), "trusted"),
    # keys
    ("keys are not measured", verdict(replace(EXACT, keyed=True), [], SETTINGS), "watch"),
    # what is not a check
    ("history", judge(EXACT, said("history", "fail")), "trusted"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "found", "expected"), RULES, ids=[name for name, _, _ in RULES])
def test_rules(name: str, found: Verdict, expected: Answer) -> None:
    assert found.verdict == expected
    assert {reason.question for reason in found.reasons} == set(QUESTIONS), "every question has an answer"
    assert max((answer(reason.status) for reason in found.reasons), key=["trusted", "watch", "do_not_trust"].index) == (
        expected
    )


def test_reasons_are_in_the_order_of_questions_and_the_worst_comes_first() -> None:
    found = judge(replace(BOUND, silent=("master-0",)), said("coverage", "fail"), said("evidence", "watch"))
    questions = [reason.question for reason in found.reasons]
    assert questions == sorted(questions, key=QUESTIONS.index)
    worst, *_ = found.of("computed_right")
    assert (worst.status, worst.sentence, worst.remedy) == ("fail", "coverage is fail.", "Mend coverage.")
    assert [reason.status for reason in found.of("fresh")] == ["watch", "good"]


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"version": 0}, "There is no posterior yet."),
        ({"waiting_seconds": 90.4}, "Events have waited for 90 s to be in the posterior."),
        ({"n_dead_lettered": 100, "n_lost": 1}, "9.2% of the events are not in it: 100 dead-lettered, 1 lost."),
        ({"n_dead_lettered": 1}, "Nearly all events are in it; not in it: 1 dead-lettered."),
        ({"silent": tuple("abcdef")}, "Not heard of for long: a, b, c, d, e, …."),
        ({"alarm_at": 900}, "The data drifted: new events were predicted worse than earlier ones, at 900 events."),
    ],
)
def test_sentences(state: dict[str, Any], text: str) -> None:
    assert text in [reason.sentence for reason in judge(replace(EXACT, **state)).reasons]


def test_without_a_monitor_it_says_so() -> None:
    found = verdict(BOUND, [], SETTINGS)
    assert found.of("computed_right")[0].sentence == "No monitor has measured it yet (check coverage)."
    assert found.of("computed_right")[0].remedy == "Let a monitor run: `streaminfer up` starts one."
