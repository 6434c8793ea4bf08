"""What a spec says of combining subposteriors: defaults, the short form, and one exact line for what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.sampling.settings import Combine
from streaminfer.spec import parse_spec
from tests.spec.sampled import document, line, settings, spec

STREAM = {"source": "stream"}
TOPIC = {"data": {"topic": "orders"}}


def test_one_subposterior_is_pooled() -> None:
    found = settings("poisson", "sgld")
    assert (found.subposteriors, found.combine) == (1, None)


def test_several_are_combined_by_a_corrected_average() -> None:
    found = settings("logistic_regression", "sgld", subposteriors=2)
    assert found.combine == Combine("average", "full", None, "importance", 1000, 2000, "wait", 60.0)


def test_with_combine_every_partition_is_a_subposterior() -> None:
    found = settings("poisson", "sgld", combine="gaussian")
    assert found.subposteriors == 4
    assert found.combine is not None
    assert (found.combine.by, found.combine.weights) == ("gaussian", None)


def test_the_window_grows_with_the_model() -> None:
    large = {"kind": "gaussian", "fields": [f"x{i}" for i in range(5)]}  # 5 means, 15 numbers of a covariance
    given = {**document("gaussian", "mh", subposteriors=2), "model": large}
    found = parse_spec(given).sampling
    assert found is not None
    assert found.combine is not None
    assert found.combine.window == 100 * 22


def test_along_a_stream_nothing_is_corrected() -> None:
    found = settings("poisson", "sgld", subposteriors=2, **STREAM)
    assert found.combine is not None
    assert found.combine.correct == "none"


def test_only_the_number_of_subposteriors_is_in_the_fingerprint() -> None:
    plain = spec("poisson", "sgld", subposteriors=4)
    other = spec("poisson", "sgld", combine={"by": "kde", "correct": "none", "draws": 10})
    assert plain.fingerprint == other.fingerprint
    assert plain.fingerprint != spec("poisson", "sgld", subposteriors=2).fingerprint


CASES: list[tuple[dict[str, Any], str]] = [
    (document("poisson", "sgld", combine="averige"), "combine.by: is not a known value; did you mean 'average'? known: "
     "average, gaussian, kde, semiparametric, variational, weierstrass, weierstrass_rejection, "
     "weierstrass_importance, normal, resampling (got 'averige')"),
    (document("poisson", "sgld", combine={"by": "kde", "weights": "full"}), "combine.weights: means nothing with by: "
     "kde, only with average: leave it out (got 'full')"),
    (document("poisson", "sgld", combine={"bandwidth": 0.1}), "combine.bandwidth: means nothing with by: average, only "
     "with kde, semiparametric, weierstrass, weierstrass_importance, weierstrass_rejection: leave it out (got 0.1)"),
    (document("poisson", "sgld", combine={"by": "kde", "missing": "leave_out"}), "combine.missing: must be wait with "
     "by: kde, which needs draws of every subposterior: leave it out, or use average (got 'leave_out')"),
    (document("poisson", "sgld", combine={"correct": "importance"}, **STREAM), "combine.correct: needs the events "
     "again, and source: stream keeps none: use source: segment, or another one (got 'importance')"),
    (document("poisson", "sgld", combine="variational", **STREAM), "combine.by: needs the events again, and source: "
     "stream keeps none: use source: segment, or another one (got 'variational')"),
    (document("poisson", "sgld", TOPIC, combine="average"), "subposteriors: must be set with combine and data.topic: "
     "the spec does not say how many partitions the topic has (got None)"),
    (document("poisson", "sgld", combine="average", subposteriors=5), "subposteriors: must be at most data.partitions, "
     "which is 4: each has partitions of its own (got 5)"),
    (document("lda", "sgrld", combine="average"), "subposteriors: must be 1 with the model lda: topics of different "
     "parts of the data have no common order; leave it out (got 4)"),
    (document("poisson", "svb", combine="average"), "combine: means nothing with the method svb, only with mh or mala "
     "or gibbs or sgld or sghmc or sgnht or sgrld or subsampled_mh or poisson_mh or flymc: leave it out (got {'by': "
     "'average', 'draws': 1000, 'missing': 'wait', 'missing_seconds': 60.0})"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), CASES)
def test_what_cannot_be_is_one_exact_line(given: dict[str, Any], said: str) -> None:
    assert line(given) == f"inference.{said}"
