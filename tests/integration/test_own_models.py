"""Models of the user's own, from a CSV file through `up --until-idle` to a snapshot, on every bus."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from queue_models.visits import Visits

from streaminfer import connect, load_spec
from streaminfer.variational import base
from streaminfer.variational.methods import coordinate_ascent
from tests.faults.answers import Case
from tests.faults.buses import params_with
from tests.faults.programs import Programs, document

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples" / "own_model"
WAITING = "queue_models.waiting:WaitingTime"
VISITS = "queue_models.visits:Visits"
EVENTS = 3000


@pytest.fixture
def found_on_path(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """All processes find the package, as if it were installed."""
    paths = os.pathsep.join([programs.environment["PYTHONPATH"], str(FOLDER)])
    monkeypatch.setitem(programs.environment, "PYTHONPATH", paths)
    return programs


def waiting(n: int) -> Case:
    times = np.random.default_rng(1).exponential(4.0, n).tolist()
    shape, rate = 2.0 + n, math.fsum([10.0, *times])
    moments = {"mean": np.array(shape / rate), "sd": np.array(math.sqrt(shape) / rate)}
    model = {"kind": WAITING, "field": "minutes", "prior": {"shape": 2, "rate": 10}}
    return Case(model, ["minutes"], [[repr(t)] for t in times], np.array([shape, rate]), {"rate": moments})


def test_waiting_times_of_several_workers_equal_the_batch_posterior(found_on_path: Programs, bus_url: str) -> None:
    programs, case = found_on_path, waiting(EVENTS)
    spec = case.write_spec(programs.folder / "spec.yaml", "waiting", partitions=4, minibatch=64)
    data = case.write_csv(programs.folder / "data.csv")
    programs.run("up", spec, "--data", data, "--workers", 3, "--until-idle", "--bus", bus_url)
    found = document(spec, bus_url)
    case.check(found)
    assert (found["model"], found["family"], found["exactness"]) == (WAITING, "gamma", "exact")
    printed = programs.run("snapshot", spec, "--bus", bus_url)
    assert f"waiting: {WAITING} by svb, exact, version" in printed.out


METHODS = {"embedded": [("svi",)], "kafka": [("svb",)]}


@pytest.mark.parametrize(("bus_url", "method"), params_with(METHODS), indirect=["bus_url"])
def test_visits_are_near_the_posterior_of_all_at_once(found_on_path: Programs, bus_url: str, method: str) -> None:
    """Within 7 sd: over 60 seeds `fit` of as many events differs by 0.5 sd (rms), and its sd by 6% to 7% at most."""
    rng = np.random.default_rng(2)
    counts = np.where(rng.random(EVENTS) < 0.3, 0, rng.poisson(3.0, EVENTS))
    events = counts[:, None].astype(np.float64)
    model = Visits("k")
    whole = model.posterior(
        coordinate_ascent.ascended(model, base.prior(model), events, None, 500, 1e-13).statistics
    ).moments()
    case = Case({"kind": VISITS, "field": "k"}, ["k"], [[k] for k in counts.tolist()], np.empty(0), {})
    programs = found_on_path
    spec = case.write_spec(programs.folder / "spec.yaml", "visits", 2, method=method, minibatch=64)
    data = case.write_csv(programs.folder / "data.csv")
    programs.run("up", spec, "--data", data, "--workers", 2, "--until-idle", "--bus", bus_url)
    found = document(spec, bus_url)
    assert found["n_events"] == EVENTS
    assert found["n_lost"] == found["n_rejected"] == found["n_damped"] == 0
    assert (found["model"], found["family"], found["exactness"]) == (VISITS, "beta-gamma", "bound")
    for name, (mean, sd, _) in whole.items():
        assert abs(found["parameters"][name]["mean"] - mean) <= 7 * sd
        assert found["parameters"][name]["sd"] == pytest.approx(sd, rel=0.1)


def test_every_key_has_its_posterior_from_a_prior_that_is_pooled(found_on_path: Programs) -> None:
    programs = found_on_path
    spec = programs.folder / "keyed.yaml"
    spec.write_text(
        f"name: keyed\nmodel: {{kind: {WAITING}, field: t}}\nkey: {{field: till, default: pooled}}\n"
        "data: {partitions: 2}\ninference: {snapshot_ms: 10}\n"
    )
    rng = np.random.default_rng(3)
    times = {str(till): rng.exponential(1 + till, 40).tolist() for till in range(5)}
    rows = [f"{till},{t!r}" for till, each in times.items() for t in each]
    (programs.folder / "data.csv").write_text("\n".join(["till,t", *rows]))
    url = f"embedded:{programs.folder / 'bus'}"
    programs.run("up", spec, "--data", programs.folder / "data.csv", "--workers", 2, "--until-idle", "--bus", url)
    with connect(url) as connection:
        found = {till: connection.snapshot(load_spec(spec), till) for till in times}
    priors = {till: each.posterior.natural - [40, math.fsum(times[till])] for till, each in found.items()}
    assert not np.allclose(priors["0"], [1, 1], rtol=0.1)
    for till, prior in priors.items():
        assert found[till].n_events == 40
        np.testing.assert_allclose(prior, priors["0"], rtol=1e-9)


def test_a_package_in_the_current_directory_is_not_found_by_services(programs: Programs) -> None:
    """The processes of `up` say in which folders they look, and it gives up."""
    (programs.folder / "here.py").write_text("from queue_models.waiting import WaitingTime\n")
    spec = programs.folder / "spec.yaml"
    spec.write_text("name: here\nmodel: {kind: 'here:WaitingTime', field: t}\n")
    ended = programs.run("up", spec, "--until-idle", "--bus", f"embedded:{programs.folder / 'bus'}", code=2)
    assert "there is no 'here': install its package for every process of the spec" in ended.err
    assert "services import nothing from the current directory" in ended.err
    assert "Traceback" not in ended.err
