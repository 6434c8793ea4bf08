"""Classes of a user's own as targets of samplers: what they need, and what is wrong with one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from queue_models.waiting import WaitingTime

from streaminfer.models.events import Field
from streaminfer.models.options import Section
from streaminfer.models.targets.autodiff import Derived
from streaminfer.spec import Spec, parse_spec
from tests.spec.own import document, kind_of, line
from tests.spec.own_targets import Curved, Densities, Sloped, Traced

__all__ = ["kind_of"]

KindOf = Callable[[type], str]


def given(kind: str, method: str, **inference: Any) -> dict[str, Any]:
    return {**document(kind), "inference": {"method": method, **inference}}


def having(base: type = Curved, **members: Any) -> type:
    return type("Model", (base,), members)


def without(base: type, name: str) -> type:
    """A class with all members of another, and of those that it is made from, but one."""
    members = {each: value for made in reversed(base.__mro__[:-1]) for each, value in vars(made).items()}
    kept = {each for each in members if (each == "__init__" or each[:2] != "__") and each != name}
    return type("Model", (), {each: members[each] for each in kept})


def parsed(made: type, method: str, kind_of: KindOf, **inference: Any) -> Spec:
    return parse_spec(given(kind_of(made), method, **inference))


def start_and_step(spec: Spec) -> tuple[str, dict[str, Any]]:
    said = spec.document["inference"]
    return said["start"], said["step"]


@pytest.mark.parametrize("method", ["mh", "mala", "sgld", "sghmc", "sgnht"])
def test_a_class_needs_nothing_of_variational_methods(method: str, kind_of: KindOf) -> None:
    spec = parsed(Curved, method, kind_of, draws=5)
    assert spec.sampling is not None
    assert spec.sampling.method == method
    assert spec.target is spec.model
    assert spec.fields == (Field("t", "positive"),)
    assert parse_spec(spec.document).fingerprint == spec.fingerprint
    assert parse_spec({**spec.document, "model": {**spec.document["model"], "prior": {"mean": 1}}}) != spec


def test_defaults_follow_its_members(kind_of: KindOf) -> None:
    assert start_and_step(parsed(Curved, "sgld", kind_of)) == ("mode", {"bias": 0.05})
    start, step = start_and_step(parsed(Sloped, "sgld", kind_of))
    assert (start, step["size"]) == ("mode", 0.001)
    assert start_and_step(parsed(Densities, "mh", kind_of)) == ("prior", {"accept": 0.234})


def test_jax_derives_gradients_where_it_can_follow(kind_of: KindOf) -> None:
    spec = parsed(Traced, "sgld", kind_of)
    assert isinstance(spec.target, Derived)
    assert start_and_step(spec) == ("mode", {"bias": 0.05})
    assert spec.target.sample_prior(np.random.default_rng(1), 2).shape == (2, 1)
    assert isinstance(parsed(Densities, "mh", kind_of).target, Densities)


def test_a_method_that_does_not_fit_is_told_with_those_that_do(kind_of: KindOf) -> None:
    assert line(given(kind_of(Densities), "sgld")) == (
        "own.yaml: inference.method: must be mh or subsampled_mh with the model queue_models:Model: "
        "sgld needs gradient, which it does "
        "not have (got 'sgld')"
    )
    assert line(given(kind_of(Sloped), "gibbs")) == (
        "own.yaml: inference.method: must be mh or mala or sgld or sghmc or sgnht or subsampled_mh with the model "
        "queue_models:Model: "
        "gibbs needs blocks, which it does not have (got 'gibbs')"
    )
    assert line(given(kind_of(Densities), "mh", start="mode")) == (
        "own.yaml: inference.start: must be prior, as the model has no gradient, by which a mode is found: leave it "
        "out (got 'mode')"
    )


@pytest.mark.parametrize(
    ("method", "inference", "expected"),
    [
        ("sgld", {"step": {"bias": 0.1}}, "step.bias: needs second derivatives, and the model has no curvature: set "
         "step.size instead (got 0.1)"),
        ("sgld", {"precondition": "mode"}, "precondition: must be rms or none, as the model has no curvature: leave it "
         "out (got 'mode')"),
        ("mala", {"precondition": "mode"}, "precondition: must be none, as the model has no curvature: leave it out "
         "(got 'mode')"),
        ("sgld", {"control_variates": True, "start": "prior"}, "control_variates: must be false with start: prior, as "
         "the model has no curvature and so no mode is known: leave it out (got True)"),
    ],
)  # fmt: skip
def test_what_second_derivatives_are_needed_for(
    method: str, inference: dict[str, Any], expected: str, kind_of: KindOf
) -> None:
    assert line(given(kind_of(Sloped), method, **inference)) == f"own.yaml: inference.{expected}"


BOUNDS: dict[str, Any] = {"derivative_bounds": (1.0, 0.25, 0.1)}
MARGINS: dict[str, Any] = {**BOUNDS, "ascent": lambda self, margins: None}
NO_MODE = "as the model has no curvature, which an expansion at the mode needs: leave it out (got 2)"


@pytest.mark.parametrize(
    ("method", "members", "inference", "expected"),
    [
        ("poisson_mh", MARGINS, {"control_variates": 2}, f"control_variates: must be 0, {NO_MODE}"),
        ("sgld", MARGINS, {"correct": {"order": 2}}, f"correct.order: must be 0, {NO_MODE}"),
        ("subsampled_mh", BOUNDS, {"test": {"rule": "hoeffding"}}, "test.rule: needs derivative_bounds and ascent, and "
         "the model has no ascent: use the rule t (got 'hoeffding')"),
        ("sgld", BOUNDS, {"correct": {"rule": "bernstein"}}, "correct.rule: needs derivative_bounds and ascent, and "
         "the model has no ascent: use the rule t (got 'bernstein')"),
    ],
)  # fmt: skip
def test_what_decisions_on_subsets_need(
    method: str, members: dict[str, Any], inference: dict[str, Any], expected: str, kind_of: KindOf
) -> None:
    """A bound needs all of its members, and an expansion a mode to be at."""
    found = line(given(kind_of(having(Sloped, **members)), method, **inference))
    assert found == f"own.yaml: inference.{expected}"


def test_bounds_without_a_mode_are_of_plain_differences(kind_of: KindOf) -> None:
    said = parsed(having(Sloped, **MARGINS), "subsampled_mh", kind_of).sampling
    assert said is not None
    assert said.test is not None
    assert (said.control_variates, said.test.rule) == (0, "bernstein_serfling")


def test_gradients_alone_may_have_control_variates_at_the_mode(kind_of: KindOf) -> None:
    said = parsed(Sloped, "sgld", kind_of, control_variates=True).sampling
    assert said is not None
    assert (said.start, said.control_variates) == ("mode", True)


def test_a_class_of_both_sorts_lists_all_its_methods(kind_of: KindOf) -> None:
    members = {name: value for base in (Densities, Sloped) for name, value in vars(base).items() if name[:2] != "__"}
    taken = {name: members[name] for name in members if name not in {"kind", "options", "labels", "build"}}
    taken |= {"mean": 0.0, "prior_gradient": lambda _, theta: -theta}
    both = type("Model", (WaitingTime,), taken)
    assert parsed(both, "svb", kind_of).sampling is None
    assert parsed(both, "mala", kind_of).sampling is not None
    assert line(given(kind_of(both), "svi")) == (
        "own.yaml: inference.method: must be svb or mh or mala or sgld or sghmc or sgnht or subsampled_mh with "
        "the model queue_models:Model (got 'svi')"
    )


def test_variational_methods_say_that_it_can_be_sampled(kind_of: KindOf) -> None:
    assert line(document(kind_of(Sloped))) == (
        "own.yaml: model.kind: must name a model, but the class has no methods, which every model has for variational "
        "methods (for samplers, name one as inference.method); see docs/own-models.md (got 'queue_models:Model')"
    )
    assert line(given("queue_models.waiting:WaitingTime", "mh")) == (
        "own.yaml: model.kind: must name a model, but the class has no method rows, which every model for samplers "
        "has; see docs/own-models.md (got 'queue_models.waiting:WaitingTime')"
    )


EVERY = "which every model for samplers has"
FAULTS: dict[str, tuple[type, str]] = {
    **{f"no-{name}": (without(Curved, name), f"the class has no {name}, {EVERY}") for name in ("kind", "options")},
    **{f"no-{name}": (without(Curved, name), f"the class has no method {name}, {EVERY}")
       for name in ("build", "rows", "log_likelihood", "log_prior", "constrain", "unconstrain")},
    **{f"no-{name}": (without(Curved, name), f"what it builds has no {name}")
       for name in ("labels", "dimension", "columns", "shapes")},
    "text": (having(log_prior="flat"), f"the class has no method log_prior, {EVERY}"),
    "options": (having(options=Section([])), "the class has options that are not a Section of one Option or more, but "
                "Section(options=[], complete=None)"),
    "dimension": (having(dimension=0), "what it builds has a dimension that is not a whole number above 0, but 0"),
    "columns": (having(columns=1.0), "what it builds has a columns that is not a whole number above 0, but 1.0"),
    "shapes": (having(shapes={"rate": 1}), "what it builds has shapes that are not a mapping of names to tuples of "
               "whole numbers, but {'rate': 1}"),
    "labels": (having(labels=None), "what it builds has labels that are not a mapping, but None"),
    "rows": (having(columns=2), "what it builds has a rows() that is not an array (8, 2) of float64, but ROWS"),
    "log-prior": (having(log_prior=lambda _, theta: 0.0), "what it builds has a log_prior() that is not an array (6,) "
                  "of float64, but 0.0"),
    "log-likelihood": (having(log_likelihood=lambda _, theta, rows: theta), "what it builds has a log_likelihood() "
                       "that is not an array (6, 8) of float64, but PLACES"),
    "improper": (having(log_prior=lambda _, theta: np.full(len(theta), -np.inf)), "what it builds has a log_prior() "
                 "that is not finite at its draws nor near 0, but theta is unconstrained"),
    "names": (having(shapes={"speed": ()}), "what it builds has a constrain() whose names are not those of shapes in "
              "their order, but ['rate']"),
    "half": (without(Sloped, "prior_gradient"), "what it builds has a gradient, but no prior_gradient"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_class_that_cannot_be_sampled_is_one_exact_line(case: str, kind_of: KindOf) -> None:
    made, fault = FAULTS[case]
    told = line(given(kind_of(made), "mh"))
    start, found, _ = fault.partition(" but ROWS") if "ROWS" in fault else fault.partition(" but PLACES")
    assert told.startswith(f"own.yaml: model.kind: must name a model, but {start}")
    assert told.endswith("; see docs/own-models.md (got 'queue_models:Model')")
    assert found or told.removesuffix("; see docs/own-models.md (got 'queue_models:Model')").endswith(fault)


WRONG: dict[str, tuple[type, str]] = {
    "back": (having(unconstrain=lambda _, parameters: parameters["rate"][:, None]),
             r"has an unconstrain\(\) that does not undo constrain\(\): (\S+) comes back as (\S+)"),
    "prior-gradient": (having(prior_gradient=lambda _, theta: theta),
                       r"is wrong: its prior_gradient has (\S+) for parameter 0, finite differences have (\S+)"),
    "gradient": (having(gradient=lambda _, theta, rows: 2 * len(rows) - 2 * np.exp(theta) * rows.sum()),
                 r"is wrong: its gradient has (\S+) for parameter 0, finite differences have (\S+)"),
}  # fmt: skip
RELATIONS: dict[str, Callable[[float], float]] = {
    "back": np.exp,
    "prior-gradient": lambda wrong: -wrong,
    "gradient": lambda wrong: wrong / 2,
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_both_numbers(case: str, kind_of: KindOf) -> None:
    made, pattern = WRONG[case]
    found = re.search(rf"but what it builds {pattern}; see docs/own-models.md \(got", line(given(kind_of(made), "mh")))
    assert found is not None
    first, second = map(float, found.groups())
    assert second == pytest.approx(RELATIONS[case](first), rel=1e-4)


def test_a_gradient_of_another_shape_is_told(kind_of: KindOf) -> None:
    told = line(given(kind_of(having(gradient=lambda _, theta, rows: theta[0])), "mh"))
    assert "but what it builds has a gradient() that is not an array (6, 1) of float64, but array([" in told


def test_what_a_density_raises_is_told(kind_of: KindOf) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("lost")

    assert line(given(kind_of(having(log_prior=broken)), "mh")) == (
        "own.yaml: model.kind: must name a model that works, but to ask for its densities raises KeyError: 'lost' "
        "(got 'queue_models:Model')"
    )


def test_made_up_events_that_a_class_does_not_allow_say_nothing(kind_of: KindOf) -> None:
    """Its own domain is narrower than that of its field: the gradient is then only that of the prior."""

    def narrow(_: Any, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.where(rows[:, 0] > 1e6, theta, np.nan)

    parsed(having(log_likelihood=narrow, gradient=lambda _, theta, rows: len(rows) + 0 * theta), "mala", kind_of)


def test_a_vague_prior_is_no_fault(kind_of: KindOf) -> None:
    """Its draws are where exp leaves float64, so places near 0 are asked as well."""

    def sample(_: Any, rng: np.random.Generator, n: int) -> np.ndarray:
        return 1e4 * rng.standard_normal((n, 1))

    def log_prior(_: Any, theta: np.ndarray) -> np.ndarray:
        return -0.5e-8 * theta[:, 0] ** 2

    vague = having(sample_prior=sample, log_prior=log_prior, prior_gradient=lambda _, theta: -1e-8 * theta)
    parsed(vague, "mala", kind_of)


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        (Field("t", "number"), np.isfinite),
        (Field("t", "positive"), lambda x: x > 0),
        (Field("t", "count"), lambda x: (x >= 0) & (x == np.round(x))),
        (Field("t", "binary"), lambda x: (x == 0) | (x == 1)),
        (Field("t", "category", ("a", "b", "c")), lambda x: np.isin(x, [0, 1, 2])),
    ],
)
def test_made_up_events_are_in_the_domains_of_fields(field: Field, allowed: Any, kind_of: KindOf) -> None:
    seen: list[np.ndarray] = []

    def rows(_: Any, events: np.ndarray) -> np.ndarray:
        seen.append(events)
        return np.abs(events)

    def init(self: Any, *_: Any) -> None:
        self.fields, self.mean = (field,), 0.0

    parsed(having(rows=rows, __init__=init), "mh", kind_of)
    assert seen[0].shape == (8, 1)
    assert allowed(seen[0]).all()
