"""`missing: leave_out`: the posterior of the other partitions, exactly, while a subposterior has no draws.

Proposals are independent and their number is known, so what the corrected moments may differ by is known too: checks
leave 5.5 standard errors, a false alarm below 1e-7 each, and the seeds are fixed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.sampling.pooled.shown import Combination, Shown
from streaminfer.spec import parse_spec
from tests.runtime.sampling.rig import LINEAR, POISSON
from tests.runtime.sampling.stopping_rig import StoppingRig

J, STOPPED = 3, 1
RNG = np.random.default_rng(21)
ROWS: list[dict[str, Any]] = [
    {"k": int(k), "a": float(a), "b": float(b), "t": float(a - 2 * b + e)}
    for k, (a, b, e) in zip(RNG.poisson(3, 240), RNG.normal(size=(240, 3)), strict=True)
]
ROWS = [{**row, "k": row["k"] + 1, "t": row["t"] + 0.5} if i % J == STOPPED else row for i, row in enumerate(ROWS)]
"""Rows of the partition that is left out are of another kind: no posterior of all is near that of the others."""
STANDARD_ERRORS = 5.5
MODELS = [pytest.param(POISSON, id="poisson"), pytest.param(LINEAR, id="linear_regression")]


class LeavingRig(StoppingRig):
    """Each partition is a subposterior; partition p has the rows p, p + J, ..."""

    def __init__(self, model: dict[str, Any], **combine: Any) -> None:
        how = {"missing": "leave_out", "missing_seconds": 2, **combine}
        self.model = model
        super().__init__(model, ROWS, J, how)

    def combined(self, left_out: list[int], rounds: int = 200) -> Combination:
        """Until there is a combination without these subposteriors, of all draws of the others."""
        for _ in range(rounds):
            self.run(*self.all, rounds=1)
            shown = self.shown if self.newest() is not None else Shown()
            without = [each.subposterior for each in shown.subposteriors if each.left_out]
            done = all(each.n_draws == 800 for each in shown.subposteriors if not each.left_out)
            if shown.combined is not None and without == left_out and done:
                return shown.combined
        raise AssertionError(f"nothing is combined without {left_out}")

    def check(self, kept: list[int]) -> None:
        """Mean, sd and evidence are those of the rows of the partitions that are kept, and nothing says otherwise."""
        rows = [row for i, row in enumerate(ROWS) if i % J in kept]
        exact: Any = fit(parse_spec({"name": "exact", "model": self.model}), rows)
        found, combined = self.seen(), self.shown.combined
        assert combined is not None
        assert combined.corrected
        assert (found.n_events, found.exactness) == (len(rows), "sampled")
        assert sorted(found.frontier) == [f"demo.events-{partition}" for partition in kept]
        assert combined.log_evidence is not None
        assert combined.log_evidence_error is not None
        error = STANDARD_ERRORS * combined.log_evidence_error
        assert abs(combined.log_evidence - exact.log_evidence()) < error
        # (sum w)^2 / sum w^2 of proposals whose weights have this coefficient of variation
        n = combined.n_proposals
        worth = n / (1 + n * combined.log_evidence_error**2)
        assert worth > n / 5
        for name in exact.mean:
            mean, sd = np.asarray(exact.mean[name]), np.asarray(exact.sd[name])
            assert (np.abs(found.mean[name] - mean) < STANDARD_ERRORS * sd / math.sqrt(worth)).all()
            # of a distribution with the kurtosis 5, more than the posteriors here have
            assert (np.abs(found.sd[name] / sd - 1) < STANDARD_ERRORS / math.sqrt(worth)).all()


@pytest.mark.parametrize("model", MODELS)
def test_a_subposterior_without_draws_is_left_out_until_it_has_some(model: dict[str, Any]) -> None:
    rig = LeavingRig(model)
    rig.service.stopped = frozenset({STOPPED})
    rig.combined([STOPPED])
    rig.check([0, 2])
    told = rig.seen().to_json()["sampling"]["subposteriors"][STOPPED]
    assert (told["left_out"], told["why"]) == (True, "its chains have no draws yet")
    assert not rig.shown.complete, "--until-idle waits for it"

    rig.service.stopped = frozenset()
    rig.combined([])
    rig.check([0, 1, 2])
    told = rig.seen().to_json()["sampling"]["subposteriors"][STOPPED]
    assert (told["left_out"], told["why"]) == (False, "")
    assert rig.shown.complete


def test_nothing_is_shown_before_the_seconds_are_over() -> None:
    rig = LeavingRig(POISSON, missing_seconds=30)
    rig.service.stopped = frozenset({STOPPED})
    rig.run(*rig.all, rounds=40, seconds=0.5)
    assert (rig.shown.combined, rig.seen().n_events) == (None, 0)
    assert [each.why == "" for each in rig.shown.subposteriors] == [True, False, True]
    rig.run(*rig.all, rounds=60, seconds=0.5)
    assert [each.left_out for each in rig.shown.subposteriors] == [False, True, False]


def test_with_wait_nothing_is_left_out() -> None:
    rig = LeavingRig(POISSON, missing="wait")
    rig.service.stopped = frozenset({STOPPED})
    rig.run(*rig.all, rounds=100, seconds=2.0)
    assert rig.shown.combined is None
    rig.service.stopped = frozenset()
    rig.combined([])
    rig.check([0, 1, 2])


def test_a_new_segment_of_others_does_not_bring_it_back() -> None:
    """Rows for all: those who can go on do, and the one that stands still stays out with all its rows."""
    rig = LeavingRig(POISSON)
    rig.service.stopped = frozenset({STOPPED})
    rig.combined([STOPPED])
    more = [{"k": int(k)} for k in RNG.poisson(3, 240)]
    for partition in range(J):
        rig.send(*more[partition::J], partition=partition)
    for _ in range(200):
        rig.run(*rig.all, rounds=1)
        if rig.seen().n_events == 320:
            break
    assert rig.seen().n_events == 320
    assert [each.left_out for each in rig.shown.subposteriors] == [False, True, False]
    assert [each.segment for each in rig.shown.subposteriors] == [1, -1, 1]
