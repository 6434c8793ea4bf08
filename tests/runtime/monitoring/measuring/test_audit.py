"""An event that was lost, or counted twice, is found by computing the posterior again from its log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Partition
from streaminfer.runtime import names
from streaminfer.runtime.monitoring.measuring.tasks import audit
from tests.made import new_increment
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
from tests.runtime.rig import Rig, poisson

ROWS = linear_rows(300)
PLANTS = {
    "nothing": (ROWS, "good"),
    "lost": (ROWS[:150] + ROWS[151:], "fail"),
    "doubled": ([*ROWS, ROWS[7]], "fail"),
    "changed": ([*ROWS[:-1], {**ROWS[-1], "t": ROWS[-1]["t"] + 1e-3}], "fail"),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_statistics_of_the_log_are_those_of_the_posterior(bus_url: str, plant: str) -> None:
    spec = spec_of(LINEAR)
    rows, status = PLANTS[plant]
    with open_bus(bus_url) as bus:
        sent(spec, bus, ROWS)
        # who loses or doubles an event by mistake counts as if nothing had happened
        found = checked("audit", context_of(spec, bus, posterior(spec, bus, rows, n_events=len(ROWS))))
    assert found.status == status, found.sentence
    assert found.target == "all"
    assert values(found)["events"] == pytest.approx(len(rows) - len(ROWS), abs=1e-6)
    if plant in {"lost", "doubled"}:
        assert f"1 events too {'few' if plant == 'lost' else 'many'}" in found.sentence
        assert "Compute it again from the log" in found.remedy


@pytest.mark.parametrize("plant", ["nothing", "lost", "doubled"])
def test_the_difference_of_two_snapshots_is_what_came_between(bus_url: str, plant: str) -> None:
    spec = spec_of(LINEAR)
    first, (rows, status) = linear_rows(100, seed=5), PLANTS[plant]
    with open_bus(bus_url) as bus:
        sent(spec, bus, first)
        base = posterior(spec, bus, first)
        sent(spec, bus, ROWS)
        newest = posterior(spec, bus, [*first, *rows], version=2, n_events=400)
        for index in (0, 1):
            bus.delete_before(Partition(names.data_topic(spec), index), 50)
        found = checked("audit", context_of(spec, bus, newest, base))
    assert (found.status, found.target, found.n_data) == (status, "segment", 300), found.sentence


def test_a_count_that_the_log_does_not_have_is_found_for_any_model(bus_url: str) -> None:
    spec, rows = spec_of(LOGISTIC), logistic_rows(200)
    with open_bus(bus_url) as bus:
        sent(spec, bus, rows)
        found = checked("audit", context_of(spec, bus, posterior(spec, bus, rows, n_events=201)))
    assert found.status == "fail"
    assert "It has 1 events too many." in found.sentence
    assert (found.n_data, values(found)["events"]) == (200, 1)


def test_a_long_chain_agrees_with_a_right_posterior_of_correlated_features(tmp_path: Path) -> None:
    """A chain whose proposals have another density than it reckons with hardly moves: all posteriors seem wrong."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((600, 1)) + 0.3 * rng.standard_normal((600, 2))
    ones = rng.random(600) < 1 / (1 + np.exp(-x @ [1.0, -0.5]))
    rows = [{"a": a, "b": b, "t": int(t)} for (a, b), t in zip(x.tolist(), ones, strict=True)]
    spec = spec_of(LOGISTIC, {"minibatch": 600})
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows)
        found = checked("audit", context_of(spec, bus, posterior(spec, bus, rows)))
    assert found.status == "good", found.sentence
    for name in ("weights[a]", "weights[b]"):
        assert values(found, name)["ratio"] == pytest.approx(1, abs=0.1)
        assert values(found, name)["coverage"] == pytest.approx(0.95, abs=0.03)


def test_a_long_chain_that_hardly_moves_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "WORTH", 1e6)
    spec, rows = spec_of(LOGISTIC), logistic_rows(100)
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows)
        found = checked("audit", context_of(spec, bus, posterior(spec, bus, rows)))
    assert (found.status, found.sentence[:35]) == ("unknown", "A long exact chain moves too slowly")


@pytest.mark.parametrize(("sums", "status"), [((9.0, 2.0), "good"), ((9.0, 1.0), "fail"), ((13.0, 3.0), "fail")])
def test_an_increment_that_is_wrong_is_found_once_a_master_has_folded_it(
    sums: tuple[float, float], status: str
) -> None:
    rig = Rig(poisson(minibatch=2))
    rig.send(4, 5)
    k, exposure = sums
    statistics = rig.spec.model.statistics(np.array([[4.0], [5.0]]))
    statistics[:2] = k, exposure
    rig.publish(
        new_increment(
            fingerprint=rig.spec.fingerprint, topic=rig.topic("events"), end=2, n_events=2, statistics=statistics
        )
    )
    rig.run(rig.master())
    assert rig.snapshot().n_events == (0 if exposure > 2 else 2), "a master takes no more than there can be"
    found = checked("audit", context_of(rig.spec, rig.bus, rig.snapshot()))
    assert found.status == status, found.sentence
