"""What a spec of a sampler cannot say: each is one exact line with field, rule, value and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.spec import parse_spec
from tests.spec.sampled import MODELS, document, line, spec

ALL = "mh or mala or gibbs or sgld or sghmc or sgnht or sgrld or subsampled_mh or poisson_mh or flymc"
SUBSETS = "subsampled_mh or poisson_mh"
GRADIENTS = "sgld or sghmc or sgnht"
ONCE = "with source: stream, whose events are seen once"
SEGMENT = "leave it out, or use source: segment"
STREAM: dict[str, Any] = {"source": "stream"}
HEAVY = {"kind": "gaussian", "fields": [f"x{i}" for i in range(200)]}


def of(kind: str, method: str, sections: dict[str, Any] | None = None, **inference: Any) -> dict[str, Any]:
    return document(kind, method, sections, **inference)


CASES: list[tuple[dict[str, Any], str]] = [
    (of("poisson", "sgrld"), "method: must be svb or mh or mala or gibbs or sgld or sghmc or sgnht or "
     "subsampled_mh with the model poisson: sgrld needs concentration, which it does not have (got 'sgrld')"),
    (of("gaussian_mixture", "sgrld"), "method: must be svb or svi or memoized or mh or mala or gibbs or sgld or sghmc "
     "or sgnht or subsampled_mh with the model gaussian_mixture: sgrld needs counts, which it does not have "
     "(got 'sgrld')"),
    (of("lda", "sgld"), "method: must be svb or svi or memoized or sgrld with the model lda: sgld needs gradient, "
     "which it does not have (got 'sgld')"),
    (of("lda", "mh"), "method: must be svb or svi or memoized or sgrld with the model lda: mh needs log_likelihood, "
     "which it does not have (got 'mh')"),
    (of("poisson", "flymc"), "method: must be svb or mh or mala or gibbs or sgld or sghmc or sgnht or subsampled_mh "
     "with the model poisson: flymc needs lower_bound, which it does not have (got 'flymc')"),
    (of("logistic_regression", "flymc", bound={"fraction": 0}), "bound.fraction: must be a number at "
     "least 1e-09 and at most 1 (got 0)"),
    (of("logistic_regression", "flymc", bound={"tune": "map"}), "bound.tune: is not a known value; known: mode, none "
     "(got 'map')"),
    (of("logistic_regression", "flymc", bound={"at": 2}), "bound.at: means nothing with tune: mode, where bounds touch "
     "at the mode: leave it out, or set tune: none (got 2.0)"),
    (of("logistic_regression", "flymc", minibatch=9), "minibatch: means nothing with the method flymc, only with svb "
     f"or svi or memoized or {GRADIENTS} or sgrld or subsampled_mh: leave it out (got 9)"),
    (of("logistic_regression", "mh", proposal="langevin"), "proposal: means nothing with the method mh, only with "
     "flymc: leave it out (got 'langevin')"),
    (of("poisson", "svb", chains=2), f"chains: means nothing with the method svb, only with {ALL}: leave it out "
     "(got 2)"),
    (of("poisson", "svb", step={"size": 0.1}), f"step: means nothing with the method svb, only with svi or mh or mala "
     f"or {GRADIENTS} or sgrld or {SUBSETS} or flymc: leave it out (got {{'size': 0.1}})"),
    (of("poisson", "gibbs", minibatch=9), "minibatch: means nothing with the method gibbs, only with svb or svi or "
     f"memoized or {GRADIENTS} or sgrld or subsampled_mh: leave it out (got 9)"),
    (of("poisson", "gibbs", step={"size": 0.1}), "step: means nothing with the method gibbs, only with svi or mh or "
     f"mala or {GRADIENTS} or sgrld or {SUBSETS} or flymc: leave it out (got {{'size': 0.1}})"),
    (of("poisson", "gibbs", step={"sise": 0.1}), "step.sise: is not a known key; known: tau, kappa, constant "
     "(got 0.1)"),
    (of("poisson", "mh", max_staleness=2), "max_staleness: means nothing with the method mh, only with svb or svi or "
     "memoized: leave it out (got 2)"),
    (of("poisson", "poisson_mh"), "method: must be svb or mh or mala or gibbs or sgld or sghmc or sgnht or "
     "subsampled_mh with the model poisson: poisson_mh needs derivative_bounds, which it does not have "
     "(got 'poisson_mh')"),
    (of("poisson", "subsampled_mh", test={"rule": "bernstein"}), "test.rule: needs derivative_bounds and ascent, and "
     "the model has no derivative_bounds: use the rule t (got 'bernstein')"),
    (of("poisson", "sgld", correct={"rule": "hoeffding"}), "correct.rule: needs derivative_bounds and ascent, and the "
     "model has no derivative_bounds: use the rule t (got 'hoeffding')"),
    (of("poisson", "subsampled_mh", control_variates=1), "control_variates: must be 0, as the model has no "
     "derivative_bounds, which an expansion at the mode needs: leave it out (got 1)"),
    (of("poisson", "sgld", correct={"order": 2}), "correct.order: must be 0, as the model has no derivative_bounds, "
     "which an expansion at the mode needs: leave it out (got 2)"),
    (of("probit_regression", "subsampled_mh", control_variates=0, test={"rule": "hoeffding"}), "control_variates: must "
     "be 1 or 2 with hoeffding, as the first of the model's derivative_bounds is None: set it (got 0)"),
    (of("probit_regression", "poisson_mh", control_variates=0), "control_variates: must be 1 or 2 with poisson_mh, as "
     "the first of the model's derivative_bounds is None: set it (got 0)"),
    (of("probit_regression", "poisson_mh", control_variates=True), "control_variates: must be 0, 1 or 2 with the "
     "method poisson_mh: correct it (got True)"),
    (of("poisson", "sgld", control_variates=1), "control_variates: must be true or false with the method sgld: correct "
     "it (got 1)"),
    (of("poisson", "subsampled_mh", control_variates=3), "control_variates: must be true or false (got 3)"),
    *((of("poisson", "subsampled_mh", test={"error": error}), "test.error: must be a number above 0 and at most 0.5 "
       f"(got {error!r})") for error in (0, 1, -0.1)),
    (of("poisson", "subsampled_mh", test={"growth": 0.5}), "test.growth: must be a number at least 1 and at most 1e+06 "
     "(got 0.5)"),
    (of("poisson", "mh", test={"rule": "t"}), "test: means nothing with the method mh, only with subsampled_mh: leave "
     "it out (got {'rule': 't', 'error': 0.01, 'growth': 2.0})"),
    (of("logistic_regression", "poisson_mh", chi=0), "chi: must be a number at least 1e-06 and at most 1000 (got 0)"),
    (of("poisson", "sgld", **STREAM, correct={"rule": "t"}), "correct: means nothing with source: stream, whose events "
     f"are seen once: {SEGMENT} (got {{'rule': 't', 'error': 0.01, 'growth': 2.0, 'order': 0}})"),
    (of("poisson", "sgld", epochs=2), "epochs: means nothing with the method sgld, only with svi or memoized: leave it "
     "out (got 2)"),
    (of("poisson", "sgld", friction=2), "friction: means nothing with the method sgld, only with sghmc or sgnht: leave "
     "it out (got 2.0)"),
    (of("poisson", "sgnht", noise=2), "noise: means nothing with the method sgnht, only with sghmc: leave it out "
     "(got 2.0)"),
    (of("poisson", "sgld", scan="random"), "scan: means nothing with the method sgld, only with gibbs: leave it out "
     "(got 'random')"),
    (of("poisson", "sgld", adapt="always"), "adapt: means nothing with the method sgld, only with mh or mala or "
     f"{SUBSETS} or flymc: leave "
     "it out (got 'always')"),
    (of("categorical", "sgrld", source="stream"), f"source: means nothing with the method sgrld, only with {GRADIENTS}:"
     " leave it out (got 'stream')"),
    (of("poisson", "sgld", transition="cir"), "transition: means nothing with the method sgld, only with sgrld: leave "
     "it out (got 'cir')"),
    (of("poisson", "mh", chains=65), "chains: must be a whole number at least 1 and at most 64 (got 65)"),
    (of("poisson", "mh", segment={"growth": 1}), "segment.growth: must be a number at least 1.001 and at most 1e+06 "
     "(got 1)"),
    (of("poisson", "mh", segment={"growth": 2, "events": 9}), "segment: must be a mapping with exactly one of growth, "
     "events, seconds (got {'growth': 2, 'events': 9})"),
    (of("poisson", "sgld", forget={"half_life_events": 9}), "forget.half_life_events: means nothing with the method "
     "sgld, for which an event counts fully or not at all: use window_events (got 9.0)"),
    (of("poisson", "mh", forget={"half_life_seconds": 9}), "forget.half_life_seconds: means nothing with the method "
     "mh, for which an event counts fully or not at all: use window_seconds (got 9.0)"),
    (of("poisson", "sgld", linger_ms=5), "linger_ms: must be 0 with the method sgld, whose data must be the same in "
     "every replay: leave it out (got 5)"),
    (of("poisson", "sgld", step={"bias": 0.1}, precondition="rms"), "step.bias: needs precondition: mode, and it is "
     "rms: set step.size instead (got 0.1)"),
    (of("poisson", "sgld", **STREAM, start="mode"), f"start: must be prior {ONCE}: {SEGMENT} (got 'mode')"),
    (of("poisson", "sgld", **STREAM, precondition="mode"), f"precondition: must be rms or none {ONCE}: {SEGMENT} (got "
     "'mode')"),
    (of("poisson", "sgld", **STREAM, control_variates=True), f"control_variates: must be false {ONCE}: {SEGMENT} "
     "(got True)"),
    (of("poisson", "sgld", **STREAM, step={"bias": 0.1}), f"step.bias: cannot be set {ONCE}: set step.size instead, or "
     "use source: segment (got 0.1)"),
    (of("poisson", "sgld", **STREAM, batches="random"), f"batches: means nothing {ONCE}, as they arrive: leave it "
     "out (got 'random')"),
    (of("poisson", "sgld", **STREAM, forget={"window_events": 9}), "forget: cannot be set with source: stream, which "
     f"goes back to no event: {SEGMENT} (got {{'window_events': 9}})"),
    (of("poisson", "sgld", population=9), "population: means nothing with source: segment, whose events are counted: "
     "leave it out, or set source: stream (got 9)"),
    (of("poisson", "sgld", step={"bias": 0.1, "size": 0.1}), "step.size: means nothing if step has bias: set size "
     "without bias, or leave it out (got 0.1)"),
    (of("poisson", "sgld", step={"bias": 0.1, "floor": 0.1}), "step.floor: means nothing if step has bias: set floor "
     "without bias, or leave it out (got 0.1)"),
    (of("poisson", "sgld", step={"power": 0.5}), "step: must have size, if it has after, power or floor: add it (got "
     "{'after': 1.0, 'power': 0.5, 'floor': 0.0})"),
    (of("poisson", "sgld", step={"size": 0.1, "floor": 0.2}), "step.floor: must be at most step.size, as steps fall to "
     "it: lower it (got 0.2)"),
    (of("poisson", "sgld", step={"accept": 0.5}), "step.accept: means nothing with the method sgld, only with mh or "
     f"mala or {SUBSETS} or flymc: leave it out (got 0.5)"),
    (of("categorical", "sgrld", step={"bias": 0.1}), "step.bias: means nothing with the method sgrld, only with "
     f"{GRADIENTS}: leave it out (got 0.1)"),
    (of("poisson", "mh", step={"bias": 0.1}), f"step.bias: means nothing with the method mh, only with {GRADIENTS}: "
     "leave it out (got 0.1)"),
    (of("poisson", "mh", step={"accept": 0.3, "size": 0.1}), "step.size: means nothing if step has accept: set size "
     "without accept, or leave it out (got 0.1)"),
    (of("poisson", "mh", adapt="never"), "step: must have size with adapt: never, as nothing is learned: set step: "
     "{size: s}, or leave adapt out (got {'accept': 0.234})"),
    (of("poisson", "mala", adapt="always", step={"size": 0.1}), "adapt: must be never if step has a size, which is "
     "then kept: leave it out, or set step.accept (got 'always')"),
    (of("poisson", "sghmc", noise=2), "noise: must be at most friction, as the noise of sghmc is what friction takes "
     "less this: lower it (got 2.0)"),
    (of("gaussian", "gibbs", subposteriors=2), "subposteriors: must be 1 with the method gibbs and this model: its "
     "prior to the power of 1/2 has no closed form; leave it out, or use another method (got 2)"),
    (of("gaussian_mixture", "mh", subposteriors=4), "subposteriors: must be fewer: the prior of a component to the "
     "power of 1/4 has no finite integral, and a component may have no events; raise model.prior.dof (got 4)"),
    (of("poisson", "mh", subposteriors=5), "subposteriors: must be at most data.partitions, which is 4: each has "
     "partitions of its own (got 5)"),
    (of("poisson", "mh", {"data": {"topic": "orders"}}, subposteriors=2), "subposteriors: must be 1 with data.topic, "
     "as the spec does not say how many partitions 'orders' has (got 2)"),
    (of("poisson", "mh", chains=64, draws=2**20 + 1), "draws: must be at most 1048576 with 64 chains and 1 numbers in "
     "a draw, 67108864 numbers in all: set fewer draws or chains, and a larger thin (got 1048577)"),
    (of("gaussian", "mh", {"model": HEAVY}), "draws: must be at most 417 with 4 chains and 40200 numbers in a draw, "
     "67108864 numbers in all: set fewer draws or chains, and a larger thin (got 1000)"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "text"), CASES, ids=[f"{i}-{text.partition(':')[0]}" for i, (_, text) in
                                                       enumerate(CASES)])  # fmt: skip
def test_one_problem_is_one_exact_line(given: dict[str, Any], text: str) -> None:
    assert line(given) == f"inference.{text}"


def test_sections_that_samplers_do_not_have() -> None:
    assert line(of("poisson", "sgld", {"key": "city"})) == (
        "key: must not be set with the method sgld: a chain is of one posterior of all events; leave it out, or use "
        "svb (got {'field': 'city', 'shards': 1, 'expire_after': None, 'default': 'prior'})"
    )
    assert line(of("poisson", "mh", {"drift": {}})) == (
        "drift: must not be set with the method mh: its scores are of whole segments; leave it out, or use svb (got "
        "{'events_per_false_alarm': 10000000.0, 'block_events': 256, 'react': 'report'})"
    )


def test_what_is_just_allowed() -> None:
    spec("poisson", "mh", chains=64, draws=2**20)
    spec("poisson", "mh", subposteriors=4)
    spec("poisson", "gibbs", subposteriors=4)
    spec("gaussian", "mh", subposteriors=4)
    spec("poisson", "mh", linger_ms=0, subposteriors=2, forget={"window_events": 9})
    spec("poisson", "sghmc", friction=2, noise=2)
    surer = {**MODELS["gaussian_mixture"], "prior": {"dof": 9}}
    parse_spec(of("gaussian_mixture", "mh", {"model": surer}, subposteriors=4))
