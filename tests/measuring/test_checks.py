"""Every rule of every check, both ways: what is inside a limit is good, what is beyond it by noise alone too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaminfer.measuring.judging.checks import CHECKS, QUESTIONS, judge, judged
from streaminfer.measuring.judging.settings import Coverage, Settings
from streaminfer.measuring.measurement import Measurement, Status, Value

USUAL = Settings()


def coverage(value: float, se: float = 0.0, ratio: float = 1.0, ratio_se: float = 0.0) -> list[Value]:
    return [Value("coverage", "weights[sqm]", value, se), Value("ratio", "weights[sqm]", ratio, ratio_se)]


def draws(r_hat: float, ess: float, tail: float = 1e4, chains: float = 4.0) -> list[Value]:
    return [
        Value("r_hat", "a", 1.0), Value("r_hat", "b", r_hat), Value("ess_bulk", "a", ess), Value("ess_tail", "b", tail),
        Value("chains", "", chains),
    ]  # fmt: skip


RULES: list[tuple[str, list[Value], Status]] = [
    ("coverage", coverage(0.95), "good"),
    ("coverage", coverage(0.921), "good"),
    ("coverage", coverage(0.919), "watch"),
    ("coverage", coverage(0.849), "fail"),
    ("coverage", coverage(0.90, se=0.007), "good"),
    ("coverage", coverage(0.90, se=0.006), "watch"),
    ("coverage", coverage(0.80, se=0.02), "watch"),
    ("coverage", coverage(0.80, se=0.016), "fail"),
    ("coverage", coverage(0.99, ratio=0.81), "good"),
    ("coverage", coverage(0.99, ratio=0.79), "watch"),
    ("coverage", coverage(0.99, ratio=0.7, ratio_se=0.04), "good"),
    ("coverage", [*coverage(0.95), Value("coverage", "b", 0.6)], "fail"),
    ("coverage", [*coverage(0.95), Value("coverage", "b", 0.6, 0.2)], "unknown"),
    ("coverage", coverage(0.95, se=0.03), "good"),
    ("coverage", coverage(0.95, se=0.06), "unknown"),
    ("coverage", coverage(0.90, se=0.04), "good"),
    ("coverage", coverage(0.50, se=0.10), "fail"),
    ("coverage", [Value("coverage", "b")], "unknown"),
    ("stein", [Value("delta", "", 0.9, 0.0)], "good"),
    ("stein", [Value("delta", "", 1.1, 0.0)], "watch"),
    ("stein", [Value("delta", "", 2.0, 0.4)], "good"),
    ("draws", draws(1.009, 401), "good"),
    ("draws", draws(1.02, 401), "watch"),
    ("draws", draws(1.06, 401), "fail"),
    ("draws", draws(1.0, 399), "watch"),
    ("draws", draws(1.0, 39), "fail"),
    ("draws", draws(1.0, 401, tail=39), "fail"),
    ("draws", draws(1.0, 399, chains=2), "good"),
    ("combined", [Value("k_hat", "", 0.69)], "good"),
    ("combined", [Value("k_hat", "", 0.71)], "watch"),
    ("combined", [Value("k_hat", "", 0.6), Value("k_hat_limit", "", 0.5)], "watch"),
    ("combined", [Value("k_hat", "", 1.1)], "fail"),
    ("audit", [Value("difference", "", 1e-9)], "good"),
    ("audit", [Value("difference", "", 1e-6)], "fail"),
    ("audit", [Value("difference", "", 1e-9), Value("events", "", -1.0)], "fail"),
    ("audit", [Value("difference", "", 1e-9), Value("events", "", 1e-6)], "good"),
    ("audit", coverage(0.95), "good"),
    ("audit", coverage(0.5), "fail"),
    ("starts", [Value("agreeing", "", 2), Value("behind", "", 0.0)], "good"),
    ("starts", [Value("agreeing", "", 1), Value("behind", "", 0.0)], "watch"),
    ("starts", [Value("agreeing", "", 3), Value("behind", "", 0.2, 0.05)], "watch"),
    ("starts", [Value("agreeing", "", 3), Value("behind", "", 0.2, 0.1)], "good"),
    ("evidence", [Value("kl", "", 0.5, None, 0.4, 0.6)], "good"),
    ("evidence", [Value("kl", "", 2.0, None, 1.5, 2.5)], "watch"),
    ("evidence", [Value("kl", "", 2.0, None, 0.5, 3.5)], "good"),
    ("calibration", [Value("coverage", "y", 0.91)], "good"),
    ("calibration", [Value("coverage", "y", 0.99)], "good"),
    ("calibration", [Value("coverage", "y", 0.89)], "watch"),
    ("calibration", [Value("coverage", "y", 0.79)], "fail"),
    ("calibration", [Value("coverage", "y", 0.79, 0.06)], "good"),
    ("calibration", [Value("coverage", "y", 0.95), Value("reliability", "y", 0.049)], "good"),
    ("calibration", [Value("coverage", "y", 0.95), Value("reliability", "y", 0.1)], "watch"),
    ("calibration", [Value("coverage", "y", 0.95), Value("reliability", "y", 0.1, 0.02)], "good"),
    ("calibration", [Value("coverage", "y", 0.89), Value("reliability", "y", 0.2)], "fail"),
    ("movement", [Value("movement", "", 2.9)], "good"),
    ("movement", [Value("movement", "", 3.1)], "watch"),
    ("movement", [Value("movement", "", 5.0, 1.0)], "good"),
]


@pytest.mark.parametrize(("check", "values", "status"), RULES, ids=str)
def test_rules(check: str, values: list[Value], status: Status) -> None:
    found = judge(check, values, USUAL)
    assert found.status == status
    assert found.sentence.endswith(".")
    assert found.remedy or status not in {"watch", "fail"}
    assert not found.remedy or status != "good", "what is wrong has a remedy, what is right has none"


def test_limits_are_those_of_the_spec() -> None:
    loose = replace(USUAL, coverage=Coverage(watch=0.7, fail=0.5))
    assert [judge("coverage", coverage(each), loose).status for each in (0.71, 0.69, 0.49)] == ["good", "watch", "fail"]


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_without_values_is_unknown(check: str) -> None:
    assert judge(check, [], USUAL).status == "unknown"
    assert judge(check, [Value("coverage"), Value("k_hat"), Value("delta")], USUAL).status == "unknown"
    assert CHECKS[check].question in QUESTIONS
    assert any(name == check for name, _, _ in RULES)


def test_sentences_name_the_number_and_what_is_wrong() -> None:
    assert judge("coverage", coverage(0.6), USUAL).sentence == "The 95% interval of weights[sqm] really holds 60%."
    values = [Value("difference", "", 0.1), Value("events", "", -1.0)]
    said = judge("audit", values, USUAL).sentence
    assert said == "The posterior is not that of the events in the log. It has 1 events too few."


def test_a_measurement_is_judged_by_its_values() -> None:
    found = judged(Measurement("coverage", "unknown", "?", values=tuple(coverage(0.6))), USUAL)
    assert (found.status, found.values[0].value) == ("fail", 0.6)
