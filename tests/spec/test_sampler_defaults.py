"""What a spec of a sampler is filled in with, method by method and model by model."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.sampling.settings import Settings, StepRule
from streaminfer.spec import json_schema, parse_spec, warnings_of
from streaminfer.spec.inference import MINIBATCH
from tests.spec.sampled import MODELS, document, settings, spec

SHARED: dict[str, Any] = {
    "seed": 0, "chains": 4, "draws": 1000, "warmup": None, "segment": {"growth": 1.5}, "subposteriors": 1,
}  # fmt: skip
GRADIENTS: dict[str, Any] = {"minibatch": 256, "batches": "random", "source": "segment"}
CURVED: dict[str, Any] = {
    **GRADIENTS, "start": "mode", "step": StepRule(bias=0.05), "precondition": "mode", "control_variates": True,
}  # fmt: skip
FILLED: list[tuple[str, str, dict[str, Any]]] = [
    ("logistic_regression", "mh", {"thin": 3, "start": "mode", "step": StepRule(accept=0.234), "adapt": "warmup"}),
    ("logistic_regression", "mala", {"thin": 1, "start": "mode", "step": StepRule(accept=0.574), "adapt": "warmup",
                                     "precondition": "mode"}),
    ("logistic_regression", "gibbs", {"thin": 1, "start": "mode", "scan": "systematic"}),
    ("logistic_regression", "sgld", CURVED),
    ("logistic_regression", "sghmc", {**CURVED, "friction": 1.0, "noise": 0.0}),
    ("logistic_regression", "sgnht", {**CURVED, "friction": 1.0}),
    ("categorical", "sgrld", {"minibatch": 256, "batches": "random", "start": "mode", "transition": "cir",
                              "step": StepRule(size=25.6)}),
    ("gaussian_mixture", "gibbs", {"thin": 1, "start": "mode", "scan": "systematic"}),
    ("gaussian_mixture", "sgld", CURVED),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "method", "expected"), FILLED, ids=[f"{kind}-{method}" for kind, method, _ in FILLED])
def test_what_is_not_said_is_filled_in(kind: str, method: str, expected: dict[str, Any]) -> None:
    """An option that a method does not have is None."""
    nothing = dict.fromkeys(Settings.__dataclass_fields__)
    assert settings(kind, method) == Settings(**{**nothing, **SHARED, "method": method, **expected})


FITTING = {
    kind: ["mh", "mala", "gibbs", "sgld", "sghmc", "sgnht", *(["sgrld"] if kind == "categorical" else [])]
    for kind in MODELS
    if kind != "lda"
}
CELLS = [(kind, method) for kind, methods in FITTING.items() for method in methods]


@pytest.mark.parametrize(("kind", "method"), CELLS)
def test_the_filled_document_says_the_same_again(kind: str, method: str) -> None:
    made = spec(kind, method)
    again = parse_spec(made.document)
    assert (again, again.fingerprint) == (made, made.fingerprint)
    assert None not in (made.document["inference"].get("step") or {"size": 1}).values()
    assert warnings_of(made) == []


def test_the_document_shows_the_filled_section() -> None:
    assert spec("poisson", "sgld", draws=10, precondition="rms").document["inference"] == {
        "method": "sgld", "linger_ms": 0, "snapshot_ms": 50, "snapshot_events": 100_000, "forget": None,
        "seed": 0, "chains": 4, "draws": 10, "thin": None, "warmup": None, "segment": {"growth": 1.5},
        "subposteriors": 1, "combine": None, "start": "mode", "minibatch": 256, "batches": "random",
        "source": "segment", "population": None, "precondition": "rms", "control_variates": True,
        "step": {"size": 0.001, "after": 1.0, "power": 0.0, "floor": 0.0}, "correct": None,
    }  # fmt: skip


def test_what_is_said_is_kept() -> None:
    said: dict[str, Any] = {
        "seed": 7, "chains": 2, "draws": 50, "thin": 3, "warmup": 0, "segment": {"events": 9}, "subposteriors": 3,
        "start": "prior", "minibatch": 64, "batches": "shuffled", "source": "segment", "precondition": "rms",
        "control_variates": False, "friction": 2.0, "noise": 0.5,
    }  # fmt: skip
    found = settings("linear_regression", "sghmc", **said, step={"size": 0.1, "power": 0.5, "after": 10, "floor": 0.01})
    assert {name: getattr(found, name) for name in said} == said
    assert found.step == StepRule(size=0.1, after=10.0, power=0.5, floor=0.01)
    assert found.n_units == 6
    assert settings("poisson", "gibbs", scan="random").scan == "random"
    assert settings("categorical", "sgrld", transition="euler").step == StepRule(size=0.01)
    assert settings("categorical", "sgrld", minibatch=100).step == StepRule(size=10.0)


def test_one_choice_decides_on_others() -> None:
    mixed = settings("poisson", "sgld", precondition="rms")
    assert (mixed.start, mixed.step, mixed.control_variates) == ("mode", StepRule(size=0.001), True)
    stream = settings("poisson", "sgld", source="stream", population=1000)
    assert (stream.start, stream.precondition, stream.control_variates) == ("prior", "rms", False)
    assert (stream.batches, stream.step, stream.population) == (None, StepRule(size=0.001), 1000)
    assert settings("poisson", "mh", step={"size": 0.5}).adapt == "never"


def test_what_all_services_read_is_there() -> None:
    gibbs = spec("poisson", "gibbs", forget={"window_events": 9}, snapshot_ms=7)
    said = gibbs.inference
    assert (said.method, said.minibatch, said.linger_ms, said.max_staleness) == ("gibbs", MINIBATCH, 0, 0)
    assert (said.snapshot_ms, said.forget, said.windowed) == (7, {"window_events": 9}, True)
    assert spec("poisson", "sgld", minibatch=32).inference.minibatch == 32
    assert parse_spec({"name": "demo", "model": MODELS["poisson"]}).sampling is None
    assert gibbs.target.dimension == 1


@pytest.mark.parametrize("kind", FITTING)
@pytest.mark.parametrize("window", [{"window_events": 9}, {"window_seconds": 60}])
def test_a_window_fits_every_model(kind: str, window: dict[str, float]) -> None:
    assert spec(kind, "mh", forget=window).inference.windowed


def test_a_diagonal_covariance_means_nothing_to_a_sampler() -> None:
    model = {**MODELS["logistic_regression"], "covariance": "diagonal"}
    made = parse_spec({"name": "demo", "model": model, "inference": {"method": "sgld"}})
    assert warnings_of(made) == []
    assert made.inference.minibatch == MINIBATCH


def test_editors_know_the_options_of_samplers() -> None:
    inference = json_schema()["properties"]["inference"]["anyOf"][0]["properties"]
    assert inference["chains"]["default"] == 4
    assert {"sgld", "svb"} <= set(inference["method"]["anyOf"][0]["enum"])
    assert document("poisson", "sgld")["inference"]["method"] == "sgld"
