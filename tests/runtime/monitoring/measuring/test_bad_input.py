"""What cannot be measured is unknown and says why; it is never an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Partition
from streaminfer.measuring.measurement import Measurement
from streaminfer.runtime import names
from streaminfer.runtime.monitoring.measuring.tasks.table import tasks_of
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from tests.runtime.monitoring.measuring.measuring_rig import (
    LINEAR,
    LOGISTIC,
    Rows,
    checked,
    context_of,
    linear_rows,
    logistic_rows,
    posterior,
    sent,
    spec_of,
)

MH = {"method": "mh", "chains": 2, "draws": 60, "warmup": 100}


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Bus]:
    with open_bus(f"embedded:{tmp_path}") as opened:
        yield opened


def made(spec: Spec, bus: Bus, rows: Rows) -> Snapshot:
    sent(spec, bus, rows)
    return posterior(spec, bus, rows)


def all_checks(spec: Spec, bus: Bus, snapshot: Snapshot, *older: Snapshot) -> dict[str, Measurement]:
    """Each with a context of its own, as if the others had failed in theirs."""
    return {task.check: checked(task.check, context_of(spec, bus, snapshot, *older)) for task in tasks_of(spec)}


def with_draws(snapshot: Snapshot, change: Callable[[np.ndarray], np.ndarray]) -> Snapshot:
    held = snapshot.payload.sampled
    assert held is not None
    changed = replace(held, draws=change(held.draws.copy()))
    return replace(snapshot, payload=replace(snapshot.payload, sampled=changed))


def constant(draws: np.ndarray) -> np.ndarray:
    draws[:] = draws[0]
    return draws


def singular(draws: np.ndarray) -> np.ndarray:
    draws[:, 1] = 2 * draws[:, 0]
    return draws


def not_a_number(draws: np.ndarray) -> np.ndarray:
    draws[3, 1] = np.nan
    return draws


@pytest.mark.parametrize(
    ("change", "check", "sentence"),
    [
        (constant, "coverage", "Coordinate 0 of the posterior does not move."),
        (constant, "stein", "Coordinate 0 of the posterior does not move."),
        (constant, "draws", "No number of the posterior moves in any chain."),
        (singular, "coverage", "The covariance of the posterior is singular."),
        (not_a_number, "coverage", "The posterior cannot be measured: a draw is not finite."),
        (not_a_number, "draws", "The posterior cannot be measured: a draw is not finite."),
    ],
)
def test_draws_that_tell_nothing(bus: Bus, change: Any, check: str, sentence: str) -> None:
    spec = spec_of(LOGISTIC, MH)
    snapshot = with_draws(made(spec, bus, logistic_rows(100)), change)
    found = checked(check, context_of(spec, bus, snapshot))
    assert (found.status, found.sentence) == ("unknown", sentence)


def test_one_chain_cannot_disagree(bus: Bus) -> None:
    spec = spec_of(LOGISTIC, {**MH, "chains": 1})
    found = checked("draws", context_of(spec, bus, made(spec, bus, logistic_rows(100))))
    assert (found.status, found.sentence) == ("unknown", "There is one chain, and one chain cannot disagree.")
    assert found.remedy == "Set inference.chains to 4."


def test_more_coordinates_than_can_be_judged_together(bus: Bus) -> None:
    features = [f"x{i}" for i in range(205)]
    rng = np.random.default_rng(0)
    rows = [{**dict.fromkeys(features, float(v)), "t": int(v > 0)} for v in rng.standard_normal(20)]
    spec = spec_of({"kind": "logistic_regression", "features": features, "target": "t"}, draws=300)
    found = checked("coverage", context_of(spec, bus, made(spec, bus, rows)))
    assert found.status == "unknown"
    assert found.sentence == "There are 206 coordinates, and only 1 to 200 can be judged together."


def test_a_model_without_a_density(bus: Bus) -> None:
    spec = spec_of({"kind": "queue_models.visits:Visits", "field": "visits"})
    rows = [{"visits": i % 4} for i in range(60)]
    found = checked("coverage", context_of(spec, bus, made(spec, bus, rows)))
    assert found.status == "unknown"
    assert found.sentence.startswith("The model has no density: ")


def test_an_empty_log(bus: Bus) -> None:
    spec, rows = spec_of(LINEAR), linear_rows(40)
    names.create_topics(spec, bus)
    found = all_checks(spec, bus, posterior(spec, bus, rows))
    assert {each.status for each in found.values()} == {"unknown"}
    assert found["coverage"].sentence == "There are no events to judge the posterior by."


def test_a_log_that_has_lost_more_than_any_older_snapshot_can_replace(bus: Bus) -> None:
    spec, rows = spec_of(LINEAR), linear_rows(200)
    base = made(spec, bus, rows[:50])
    sent(spec, bus, rows[50:])
    newest = posterior(spec, bus, rows, version=2)
    for index in (0, 1):
        bus.delete_before(Partition(names.data_topic(spec), index), 60)
    found = all_checks(spec, bus, newest, base)
    assert {check: each.status for check, each in found.items() if check != "movement"} == dict.fromkeys(
        set(found) - {"movement"}, "unknown"
    )
    assert found["coverage"].sentence == "Retention has removed events of the posterior from the log."
    assert found["audit"].sentence == "Retention has removed events of the posterior from the log."


def test_a_snapshot_with_as_many_events_is_nothing_to_have_moved_from(bus: Bus) -> None:
    spec, rows = spec_of(LINEAR), linear_rows(100)
    snapshot = made(spec, bus, rows)
    found = checked("movement", context_of(spec, bus, replace(snapshot, version=2), snapshot))
    assert (found.status, found.sentence) == ("unknown", "There is no older snapshot with much fewer events.")
