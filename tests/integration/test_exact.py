"""Every conjugate model, from a CSV file through `up --until-idle`, equals the batch posterior."""

from __future__ import annotations

from itertools import product

import pytest

from tests.faults import answers
from tests.faults.answers import MODELS, Case
from tests.faults.buses import params_with
from tests.faults.programs import Programs, document

EVENTS = 3000
FULL = list(product(MODELS, (1, 2, 4), (1, 4)))
CHOSEN = [
    ("bernoulli", 1, 1),
    ("bernoulli", 4, 4),
    ("categorical", 1, 4),
    ("categorical", 2, 1),
    ("poisson", 2, 4),
    ("poisson", 4, 1),
    ("gaussian", 1, 4),
    ("gaussian", 2, 4),
    ("linear_regression", 1, 1),
    ("linear_regression", 2, 4),
]
"""Each model twice, each number of workers with each number of partitions once at least."""


def check(programs: Programs, url: str, case: Case, workers: int, partitions: int) -> None:
    spec = case.write_spec(programs.folder / "spec.yaml", "exact", partitions, minibatch=64)
    data = case.write_csv(programs.folder / "data.csv")
    programs.run("up", spec, "--data", data, "--workers", workers, "--until-idle", "--bus", url)
    found = document(spec, url)
    case.check(found)
    assert len(found["frontier"]) == partitions


def test_the_chosen_combinations_have_every_model_twice_and_every_pair() -> None:
    assert {model: sum(row[0] == model for row in CHOSEN) for model in MODELS} == dict.fromkeys(MODELS, 2)
    assert {row[1:] for row in CHOSEN} == {row[1:] for row in FULL}


BY_BUS = {"embedded": CHOSEN[0::2], "kafka": CHOSEN[1::2]}
"""On each bus each model once."""


@pytest.mark.parametrize(("bus_url", "model", "workers", "partitions"), params_with(BY_BUS), indirect=["bus_url"])
def test_equals_the_batch_posterior(
    programs: Programs, bus_url: str, model: str, workers: int, partitions: int
) -> None:
    check(programs, bus_url, MODELS[model](EVENTS), workers, partitions)


@pytest.mark.parametrize(
    ("bus_url", "model"),
    params_with({"embedded": [("linear_regression",)], "kafka": [("gaussian",)]}),
    indirect=["bus_url"],
)
def test_equals_it_where_means_are_1e7_times_the_sd(programs: Programs, bus_url: str, model: str) -> None:
    case = getattr(answers, model)(EVENTS, centre=1e7)
    check(programs, bus_url, case, workers=2, partitions=4)


@pytest.mark.long
@pytest.mark.parametrize(("model", "workers", "partitions"), FULL)
def test_equals_the_batch_posterior_in_every_combination(
    programs: Programs, bus_url: str, model: str, workers: int, partitions: int
) -> None:
    check(programs, bus_url, MODELS[model](EVENTS), workers, partitions)
