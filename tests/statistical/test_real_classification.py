"""One pass over real data: classifiers of web pages and of digits, held-out log loss next to that of the batch MAP.

Nothing is drawn: the data, their order and what is held out are fixed, so there are no false alarms.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from tests.docs.pages import ROOT
from tests.models.examples import build
from tests.statistical.importance import LOG_LIKELIHOOD, map_weights
from tests.statistical.tables import table
from tests.variational.one_pass import one_pass


class Real(NamedTuple):
    """What is learned from and what is held out, (n, features + 1), with the columns' names; and the minibatches."""

    names: list[str]
    learned: np.ndarray
    held_out: np.ndarray
    minibatches: dict[str, int]


def pages() -> Real:
    """Features are 0, 0.5 or 1 and enter as 2 x - 1; every fifth page is held out."""
    names, rows = table("phishing.csv")
    events = np.column_stack([2 * rows[:, :-1] - 1, rows[:, -1]])
    held_out = np.arange(len(events)) % 5 == 4
    return Real(names, events[~held_out], events[held_out], {"full": 64, "diagonal": 64})


def digits() -> Real:
    """Brightnesses from 0 to 255 enter as x / 64; MNIST's test set is held out. Minibatches are those of a spec."""
    names, rows = table("sevens_and_nines.csv.gz")
    events = np.column_stack([rows[:, :-1] / 64, rows[:, -1]])
    return Real(names, events[:12_214], events[12_214:], {"full": 256, "diagonal": 1024})


REAL = {"Phishing": pages, "MNIST, 7 against 9": digits}


@cache
def log_losses(name: str, kind: str) -> dict[str, float]:
    """Those of the batch MAP, and of one pass with either covariance."""
    names, learned, held_out, minibatches = REAL[name]()
    found = {}
    for covariance in ("full", "diagonal"):
        model = build(kind, features=names[:-1], target=names[-1], covariance=covariance)
        posterior = model.posterior(one_pass(model, learned, minibatches[covariance]))
        found[covariance] = -float(posterior.log_predictive(held_out).mean())
    rows, signs = model.design(held_out)
    found["map"] = -float(LOG_LIKELIHOOD[kind][0](signs * (rows @ map_weights(model, learned)[0])).mean())
    rate = learned[:, -1].mean()
    found["intercept only"] = -float(np.log(np.where(held_out[:, -1] == 1, rate, 1 - rate)).mean())
    return found


@pytest.mark.parametrize("kind", LOG_LIKELIHOOD)
@pytest.mark.parametrize(
    ("name", "covariance", "most"),
    [
        ("Phishing", "full", 1.02),
        ("Phishing", "diagonal", 1.05),
        ("MNIST, 7 against 9", "full", 1.02),
        ("MNIST, 7 against 9", "diagonal", 1.10),
    ],
)
def test_one_pass_is_near_the_map(kind: str, name: str, covariance: str, most: float) -> None:
    found = log_losses(name, kind)
    assert found[covariance] <= most * found["map"]
    assert found[covariance] <= 0.5 * found["intercept only"]


@pytest.mark.parametrize("kind", LOG_LIKELIHOOD)
@pytest.mark.parametrize("name", REAL)
def test_the_page_has_these_figures(kind: str, name: str) -> None:
    """The diagonal of the digits among them, which is further from the MAP: neighbours on a picture say the same."""
    page = (ROOT / "docs" / "variational.md").read_text()
    found = re.search(rf"^\| {name} \| `{kind}` \| (\S+) \| (\S+) \| (\S+) \|$", page, re.MULTILINE)
    assert found is not None
    wanted = [log_losses(name, kind)[each] for each in ("map", "full", "diagonal")]
    np.testing.assert_allclose([float(text) for text in found.groups()], wanted, atol=0.0006)
