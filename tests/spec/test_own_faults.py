"""Classes that are not whole models: each fault is one exact line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from queue_models.visits import Visits
from queue_models.waiting import WaitingTime

from streaminfer import fit
from streaminfer.models.events import Field
from streaminfer.models.model import AnyModel, Conjugate, Filter, Latent, Model, Predicts, is_conjugate
from streaminfer.models.options import Option, OptionsError, Section, Text
from streaminfer.spec import parse_spec
from streaminfer.spec.own_models import own_faults
from tests.spec.own import document, kind_of, line

__all__ = ["kind_of"]


class Hostile(type):
    """A class whose members cannot even be looked at."""

    def __getattr__(cls, name: str) -> Any:
        raise RuntimeError(f"no {name} for you")


class Unseen(metaclass=Hostile):
    pass


def without(base: type, *names: str) -> type:
    """A class with all members of another but a few."""
    kept = (name for name in vars(base) if name == "__init__" or (name[:2] != "__" and name not in names))
    return type("Model", (), {name: vars(base)[name] for name in kept})


def having(base: type = WaitingTime, **members: Any) -> type:
    return type("Model", (base,), members)


PRIOR = WaitingTime.options.options[-1]
SECTION = [Option("field", Text(), "the field"), PRIOR]
NEEDED = Option("prior", Section([Option("shape", Text(), "a shape")]), "a prior", {})
EVERY = "which every model has"
FAULTS: dict[str, tuple[type, str]] = {
    **{f"no-{name}": (without(WaitingTime, name), f"the class has no {name}, {EVERY}")
       for name in ("kind", "options", "methods", "exactness", "needs_base")},
    **{f"no-{name}": (without(WaitingTime, name), f"the class has no method {name}, {EVERY}")
       for name in ("build", "empty", "merge", "scale", "proper", "posterior")},
    **{f"no-{name}": (without(WaitingTime, name), f"the class has no method {name}, which a Conjugate model has")
       for name in ("statistics_by", "log_evidences", "with_prior", "pooled")},
    "no-elbo": (without(Visits, "elbo"), "the class has no method elbo, which a Latent model has"),
    "no-sort": (without(Visits, "expected", "elbo"), "the class has none of the methods statistics, expected, absorb, "
                "one of which says how it learns from events"),
    "method": (having(merge=3), f"the class has no method merge, {EVERY}"),
    "kind": (having(kind=3), "the class has a kind that is not a text, but 3"),
    "dict": (having(options={"field": 1}), "the class has options that are not a Section, but {'field': 1}"),
    "none": (having(options=Section([])), "the class has options that are not a Section of one Option or more, but "
             "Section(options=[], complete=None)"),
    "strings": (having(options=Section(["x"])), "the class has options that are not a Section of one Option or "
     "more, but "  # type: ignore[list-item]
                "Section(options=['x'], complete=None)"),
    "first": (having(options=Section([PRIOR, SECTION[0]])), "the class has options of which the last is not the "
              "Section prior, but 'field'"),
    "text-prior": (having(options=Section([Option("prior", Text(), "a text")])), "the class has options of which the "
                   "last is not the Section prior, but 'prior'"),
    "kind-option": (having(options=Section([Option("kind", Text(), "a kind"), PRIOR])), "the class has an option named "
                    "kind, which in a spec is the name of the class"),
    "needed": (having(options=Section([SECTION[0], NEEDED])), "the class has a prior whose shape has no default"),
    "no-methods": (having(methods=()), "the class has methods that are not a tuple of one or more of METHODS, but ()"),
    "list": (having(methods=["svb"]), "the class has methods that are not a tuple of one or more of METHODS, but "
             "['svb']"),
    "mcmc": (having(methods=("svb", "mcmc")), "the class has methods that are not a tuple of one or more of METHODS, "
             "but ('svb', 'mcmc')"),
    "svi": (having(methods=("svb", "svi")), "the class has svi among its methods, which needs expected and elbo"),
    "memoized": (having(methods=("memoized",)), "the class has memoized among its methods, which needs expected and "
                 "elbo"),
    "good": (having(exactness="good"), "the class has an exactness that is not one of exact, bound, approximate, but "
             "'good'"),
    "base": (having(needs_base=1), "the class has a needs_base that is neither True nor False, but 1"),
    "no-base": (having(Visits, needs_base=False), "the class has a needs_base that is False, but without statistics "
                "what it learns depends on a posterior"),
    "no-fields": (without(WaitingTime, "fields"), "what it builds has no fields"),
    "no-size": (without(WaitingTime, "size"), "what it builds has no size"),
    "no-labels": (without(WaitingTime, "labels"), "what it builds has no labels"),
    "no-prior-options": (without(WaitingTime, "prior_options"), "what it builds has no prior_options"),
    "fields": (having(fields=("t",)), "what it builds has fields that are not a tuple of one Field or more, but "
     "('t',)"),
    "nothing": (having(fields=()), "what it builds has fields that are not a tuple of one Field or more, but ()"),
    "key": (having(fields=(Field("t", "key"),)), "what it builds has a field 't' whose kind is not one of KINDS, but "
            "'key'"),
    "time": (having(fields=(Field("t", "time"),)), "what it builds has a field 't' whose kind is not one of KINDS, but "
             "'time'"),
    "twice": (having(fields=(Field("t", "count"), Field("t", "number"))), "what it builds has two fields of one name "
              "among ['t', 't']"),
    "labels": (having(labels=None), "what it builds has labels that are not a mapping, but None"),
    "size": (having(size=0), "what it builds has a size that is not a whole number above 0, but 0"),
    "other-size": (having(size=3), "what it builds has an empty() that is not an array of 3 finite numbers of "
     "float64, but "
                   "array([0., 0.])"),
    "whole": (having(empty=lambda _: np.zeros(2, int)), "what it builds has an empty() that is not an array of "
     "2 finite "
              "numbers of float64, but array([0, 0])"),
    "nan": (having(empty=lambda _: np.full(2, np.nan)), "what it builds has an empty() that is not an array of "
     "2 finite "
            "numbers of float64, but array([nan, nan])"),
    "inputs": (having(inputs=(Field("x", "number"),)), "what it builds has inputs that are not a tuple of some of its "
               "fields, but (Field(name='x', kind='number', categories=(), path=('x',), most=100000, long..."),
    "inputs-list": (having(inputs=[]), "what it builds has inputs that are not a tuple of some of its fields, but []"),
    "no-outputs": (without(WaitingTime, "outputs"), "what it builds has inputs, but outputs that are not a tuple of "
                   "texts, but None"),
    "outputs": (having(outputs=(1,)), "what it builds has inputs, but outputs that are not a tuple of texts, but (1,)"),
    "no-predict": (having(Visits, inputs=(), outputs=()), "what it builds has inputs, but a posterior without the "
                   "method predict"),
    "improper": (having(proper=lambda _, rows: np.zeros(len(rows), bool)), "what it builds has a proper() that refuses "
                 "empty()"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_class_that_is_no_whole_model_is_one_exact_line(case: str, kind_of: Callable[[type], str]) -> None:
    made, fault = FAULTS[case]
    told = fault.replace("METHODS", ", ".join(own_faults.METHODS)).replace("KINDS", ", ".join(own_faults.FIELD_KINDS))
    assert line(document(kind_of(made))) == (
        f"own.yaml: model.kind: must name a model, but {told}; see docs/own-models.md (got 'queue_models:Model')"
    )


def test_the_faults_cover_every_member() -> None:
    told = " ".join(fault for _, fault in FAULTS.values())
    for sort in (AnyModel, Model, Conjugate, Latent, Predicts):
        for name in [*own_faults._methods(sort), *own_faults._properties(sort), *sort.__annotations__]:
            assert name in told, name
    assert own_faults._methods(Filter) == ["absorb"]


def broken(*_: Any, **__: Any) -> Any:
    raise KeyError("lost")


class Posterior:
    family, natural = "gamma", np.ones(2)

    def __init__(self, **members: Any) -> None:
        vars(self).update(members)

    def moments(self) -> dict[str, Any]:
        return {}


POSTERIORS = [
    (Posterior(family=None), "a posterior whose family is not a text of 1 to 200 characters, but None"),
    (Posterior(family=""), "a posterior whose family is not a text of 1 to 200 characters, but ''"),
    (Posterior(natural=[1.0]), "a posterior whose natural is not an array of finite numbers of float64, but [1.0]"),
    (Posterior(natural=np.array([np.inf])), "a posterior whose natural is not an array of finite numbers of "
     "float64, but "
     "array([inf])"),
    (Posterior(), "a posterior whose moments() do not name a parameter"),
]  # fmt: skip


@pytest.mark.parametrize(("posterior", "fault"), POSTERIORS)
def test_the_posterior_of_no_events_is_looked_at(posterior: object, fault: str, kind_of: Callable[[type], str]) -> None:
    kind = kind_of(having(posterior=lambda *_: posterior))
    assert line(document(kind)) == (
        f"own.yaml: model.kind: must name a model, but what it builds has {fault}; see docs/own-models.md "
        f"(got {kind!r})"
    )


class Sloppy(Text):
    """A rule that gives back what no YAML has."""

    def check(self, value: object, field: str, problems: list[Any]) -> Any:
        return np.float64(1.0)


class Broken(Text):
    check = broken


WORKS = "must name a model that works, but"
RAISING: list[tuple[type, str]] = [
    (Unseen, f"{WORKS} to look at its members raises RuntimeError: no statistics for you"),
    (having(build=classmethod(broken)), f"{WORKS} to build it raises KeyError: 'lost'"),
    (having(posterior=broken), f"{WORKS} to make the posterior of no events raises KeyError: 'lost'"),
    (having(fields=property(broken)), f"{WORKS} to make the posterior of no events raises KeyError: 'lost'"),
    (having(options=Section([Option("field", Broken(), "a field"), PRIOR])),
     f"{WORKS} to check its options raises KeyError: 'lost'"),
    (having(options=Section([Option("field", Sloppy(), "a field"), PRIOR])),
     "must name a model whose options are checked to texts, finite numbers, lists and mappings, as YAML has them"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "rule"), RAISING)
def test_what_a_class_raises_is_one_exact_line(made: type, rule: str, kind_of: Callable[[type], str]) -> None:
    assert line(document(kind_of(made))) == f"own.yaml: model.kind: {rule} (got 'queue_models:Model')"


def test_options_that_do_not_fit_together_are_those_of_the_model(kind_of: Callable[[type], str]) -> None:
    def build(cls: type, options: dict[str, Any]) -> None:
        raise OptionsError("field", "must be another one", options["field"])

    kind = kind_of(having(build=classmethod(build)))
    assert line(document(kind)) == "own.yaml: model.field: must be another one (got 't')"


def test_attributes_of_instances_will_do(kind_of: Callable[[type], str]) -> None:
    made = without(WaitingTime, "size", "labels")

    def init(self: Any, field: str, shape: float, rate: float) -> None:
        self.field, self.shape, self.rate, self.size, self.labels = field, shape, rate, 2, {}

    made.__init__ = init  # type: ignore[misc]
    assert parse_spec(document(kind_of(made))).model.size == 2


def test_a_filter_is_a_model_too(kind_of: Callable[[type], str]) -> None:
    """One that absorbs what the conjugate model would, and so has its posterior."""
    made = without(WaitingTime, *own_faults._methods(Conjugate), *own_faults._properties(Conjugate))
    made.absorb = lambda self, base, events, weights=None: WaitingTime.statistics(self, events, weights)  # type: ignore[attr-defined]
    made.needs_base = True  # type: ignore[attr-defined]
    spec = parse_spec({**document(kind_of(made)), "inference": {"minibatch": 7}})
    assert isinstance(spec.model, Filter)
    assert not is_conjugate(spec.model)
    times = np.random.default_rng(1).exponential(4.0, 100).tolist()
    found = fit(spec, [{"t": t} for t in times])
    np.testing.assert_allclose(found.posterior.natural, [101, 1 + math.fsum(times)], rtol=1e-12)
