"""An approximate posterior that was killed again and again is the same, to the last digit, as one that was not."""

from __future__ import annotations

import pytest

from tests.faults.identical import CASES, SERIAL
from tests.faults.programs import Programs
from tests.faults.test_kills import play

IN_EVERY_RUN = ("gaussian_mixture", "svb"), ("logistic_regression", "svi")
LATER = ("gaussian_mixture", "svi"), ("logistic_regression", "svb"), ("probit_regression", "svb")


def killed(programs: Programs, url: str, model: str, method: str) -> None:
    rules = {"method": method, "minibatch": 400, **SERIAL}
    play(programs, url, CASES[model](24_000, **rules), 5, seed=11, partitions=1, **rules)


@pytest.mark.parametrize(("model", "method"), IN_EVERY_RUN)
def test_kills_change_no_digit(programs: Programs, bus_url: str, model: str, method: str) -> None:
    killed(programs, bus_url, model, method)


@pytest.mark.long
@pytest.mark.parametrize(("model", "method"), LATER)
def test_kills_change_no_digit_of_any_other(programs: Programs, bus_url: str, model: str, method: str) -> None:
    killed(programs, bus_url, model, method)
