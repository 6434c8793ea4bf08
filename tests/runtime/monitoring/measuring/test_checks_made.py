"""Every check of the table on posteriors of real events: what it says of a right one, and of a wrong one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.runtime.monitoring.measuring.tasks.table import TASKS, tasks_of
from tests.runtime.monitoring.measuring.measuring_rig import (
    LINEAR,
    LOGISTIC,
    checked,
    context_of,
    linear_rows,
    logistic_rows,
    posterior,
    sent,
    spec_of,
    values,
)

SMALL = {"datasets": 3, "temperatures": 60, "events": 60}


@pytest.mark.parametrize(("model", "rows"), [(LINEAR, linear_rows(800)), (LOGISTIC, logistic_rows(800))])
def test_a_right_posterior_passes_every_check(
    tmp_path: Path, model: dict[str, object], rows: list[dict[str, float]]
) -> None:
    spec = spec_of(model, draws=400, bdmc=SMALL)
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows[:400])
        base = posterior(spec, bus, rows[:400])
        sent(spec, bus, rows[400:])
        context = context_of(spec, bus, posterior(spec, bus, rows, version=2), base)
        found = {task.check: checked(task.check, context) for task in tasks_of(spec)}
    assert {check: (each.status, each.sentence) for check, each in found.items() if each.status != "good"} == {}
    assert found["coverage"].target == "all"
    assert (found["calibration"].n_data, found["coverage"].n_data) == (400, 800)
    assert found["calibration"].curves["pit"].shape[1] == 2
    assert set(found) == {"coverage", "stein", "movement", "calibration", "audit", "evidence"}


def test_a_posterior_that_is_too_sure_fails(tmp_path: Path) -> None:
    spec, rows = spec_of(LOGISTIC, draws=400), logistic_rows(500)
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows)
        right = posterior(spec, bus, rows)
        sure = replace(right, payload=replace(right.payload, statistics=3 * right.payload.statistics))
        context = context_of(spec, bus, sure)
        coverage, audit = checked("coverage", context), checked("audit", context)
    assert (coverage.status, audit.status) == ("fail", "fail")
    # the true sd is sqrt(3) of what is published: its 95% interval holds 74%
    for found in (coverage, audit):
        assert values(found, "weights[a]")["ratio"] == pytest.approx(np.sqrt(3), rel=0.1)
        assert values(found, "weights[a]")["coverage"] == pytest.approx(0.74, abs=0.06)


@pytest.mark.parametrize(("shift", "least", "most"), [(0.0, 0.0, 0.5), (2.0, 0.6, 1.0)])
def test_posteriors_of_one_number_have_a_graph_stein_discrepancy(
    tmp_path: Path, shift: float, least: float, most: float
) -> None:
    """As a part of its bound, which says nothing of the draws."""
    spec = spec_of({"kind": "poisson", "field": "k"}, draws=300)
    rows = [{"k": 1 + i % 7} for i in range(200)]
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows)
        right = posterior(spec, bus, rows)
        more = right.payload.statistics.copy()
        more[0] += shift * np.sqrt(more[0])  # that many posterior deviations more events
        found = checked("stein", context_of(spec, bus, replace(right, payload=replace(right.payload, statistics=more))))
    (graph,) = (each for each in found.values if each.name == "graph_stein")
    assert graph.value is not None
    assert graph.upper is not None
    assert least * graph.upper < graph.value < most * graph.upper, (graph.value, graph.upper)


def test_more_events_than_are_held_are_anchored(tmp_path: Path) -> None:
    spec, rows = spec_of(LOGISTIC, draws=300, events=300), logistic_rows(3000)
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows)
        snapshot = posterior(spec, bus, rows)
        whole = checked("coverage", context_of(spec_of(LOGISTIC, draws=300), bus, snapshot))
        some = checked("coverage", context_of(spec, bus, snapshot))
        long_chain = checked("audit", context_of(spec, bus, snapshot))
    assert (whole.target, some.target, some.n_data) == ("all", "anchored", 3000)
    for name in ("weights[intercept]", "weights[a]", "weights[b]"):
        there, here = values(whole, name), values(some, name)
        assert here["coverage"] == pytest.approx(there["coverage"], abs=0.02)
        assert here["shift"] == pytest.approx(there["shift"], abs=0.15)
    assert (long_chain.status, long_chain.sentence) == ("unknown", "The log has more events than are held.")


def test_a_log_without_its_start_is_measured_from_an_older_snapshot_on(tmp_path: Path) -> None:
    from streaminfer.bus.protocol import Partition
    from streaminfer.runtime import names

    spec, rows = spec_of(LOGISTIC, draws=300), logistic_rows(600)
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows[:300])
        base = posterior(spec, bus, rows[:300], version=7)
        sent(spec, bus, rows[300:])
        newest = posterior(spec, bus, rows, version=9)
        for index in (0, 1):
            bus.delete_before(Partition(names.data_topic(spec), index), 100)
        alone, found = context_of(spec, bus, newest), context_of(spec, bus, newest, base)
        assert checked("coverage", alone).sentence == "Retention has removed events of the posterior from the log."
        told = checked("coverage", found)
    assert (told.status, told.target, told.n_data) == ("good", "segment", 300)


def test_new_events_that_nobody_expected_are_told(tmp_path: Path) -> None:
    spec, rows = spec_of(LINEAR), linear_rows(400)
    rng = np.random.default_rng(3)
    wild = [{**row, "t": row["t"] + 3 * float(rng.standard_normal())} for row in linear_rows(400, seed=2)]
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows)
        base = posterior(spec, bus, rows)
        sent(spec, bus, wild)
        found = checked("calibration", context_of(spec, bus, posterior(spec, bus, [*rows, *wild], 2), base))
    assert found.status == "fail", found.sentence


@pytest.mark.parametrize(("sure", "status"), [(1.0, "good"), (3.0, "watch")])
def test_probabilities_of_new_events_are_compared_with_what_happens(tmp_path: Path, sure: float, status: str) -> None:
    """Odds three times as large as they should be leave predictive intervals nearly as they are: 91% instead of 95%."""
    spec = spec_of(LOGISTIC)
    rows = logistic_rows(4000)
    wrong = [{**row, "a": sure * row["a"], "b": sure * row["b"]} for row in rows[2000:]]
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows[:2000])
        base = posterior(spec, bus, rows[:2000])
        sent(spec, bus, wrong)
        newest = posterior(spec, bus, [*rows[:2000], *wrong], 2)
        found = checked("calibration", context_of(spec, bus, newest, base))
    assert found.status == status, found.sentence
    assert found.curves["reliability"].shape == (10, 4)
    assert values(found, "t").keys() >= {"coverage", "reliability", "bias"}
    if status == "watch":
        assert found.sentence.startswith("Predicted probabilities of t are ")


def test_the_table_has_every_check_that_is_judged() -> None:
    from streaminfer.measuring.judging.checks import CHECKS

    assert set(TASKS) == set(CHECKS)
