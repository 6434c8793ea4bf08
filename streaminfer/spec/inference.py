"""The spec's section `inference`: the options that every method has, and those of the method that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streaminfer.models.binary import regression
from streaminfer.models.lda.model import Lda
from streaminfer.models.model import AnyModel, Filter, Latent
from streaminfer.models.options import Choice, Integer, Option, OptionsError, Problem, Section
from streaminfer.variational.methods import METHODS
from streaminfer.variational.settings import Inference
from streaminfer.variational.steps import StepSize

MINIBATCH: Final = 256
"""Positions of a minibatch if neither the spec nor its model (`usual_minibatch`) says how many."""
LINGER_MS: Final = 50
"""How long events wait for a full minibatch if the spec does not say so."""
USUAL: Final = "svb"

METHOD: Final = Option("method", Choice(tuple(METHODS)), "The method of inference.", USUAL)

COMMON: Final = (
    METHOD,
    Option(
        "minibatch",
        Integer(1, 1_000_000),
        f"Minibatches end at multiples of this many positions. Not set means {MINIBATCH}, with a diagonal "
        f"covariance {regression.DIAGONAL_MINIBATCH}.",
        None,
    ),
    Option(
        "linger_ms",
        Integer(0, 3_600_000),
        "How long events may wait for a full minibatch; 0: always, so that boundaries depend on positions alone. "
        f"Not set means {LINGER_MS}, with the method memoized 0.",
        None,
    ),
    Option(
        "max_staleness",
        Integer(0, 10_000),
        "Minibatches a worker may be ahead of the posterior it starts from, for models that need one.",
        8,
    ),
    Option("snapshot_ms", Integer(1, 3_600_000), "The longest time between a change and its snapshot.", 50),
    Option("snapshot_events", Integer(1, 10**12), "A snapshot comes at once after this many events.", 100_000),
)

SECTIONS: Final[Mapping[str, Section]] = {
    method.name: Section((*COMMON, *method.options), method.complete) for method in METHODS.values()
}
"""What the section may say, by the method that it names."""

EVERY: Final = Section((*COMMON, *{each.name: each for method in METHODS.values() for each in method.options}.values()))
"""All options of all methods."""


def checked(value: object, problems: list[Problem]) -> dict[str, Any]:
    """The options of a section by the method that it names, checked and with their defaults."""
    method = value.get("method", USUAL) if isinstance(value, Mapping) else USUAL
    section = SECTIONS.get(method, SECTIONS[USUAL]) if isinstance(method, str) else SECTIONS[USUAL]
    if not isinstance(value, Mapping):
        return section.check(value, "inference", problems)
    own = {option.name for option in section.options}
    foreign = {option.name: option for option in EVERY.options if option.name not in own and option.name in value}
    for name, option in foreign.items():
        if value[name] is not None and method in METHODS:
            wrong: list[Problem] = []
            given = option.rule.check(value[name], f"inference.{name}", wrong)
            problems += wrong or [_meaningless(name, given, method)]
    known = {option.name for option in EVERY.options}
    for key in value:
        if key not in known:
            EVERY.check({key: value[key]}, "inference", problems)
    options = section.check({k: v for k, v in value.items() if k in own}, "inference", problems)
    if options.get("linger_ms") is None:
        options["linger_ms"] = LINGER_MS
    return options


def _meaningless(name: str, value: object, method: str) -> Problem:
    """An option that only other methods have."""
    owners = [each.name for each in METHODS.values() if name in {option.name for option in each.options}]
    rule = f"means nothing with the method {method}, only with {' or '.join(owners)}: leave it out"
    if isinstance(value, Mapping):
        value = {key: said for key, said in value.items() if said is not None}
    return Problem(f"inference.{name}", rule, value)


def filled(options: Mapping[str, Any], model: AnyModel) -> dict[str, Any]:
    """Checked options, with the minibatch that a model is usually learned by."""
    usual = getattr(model, "usual_minibatch", None) or MINIBATCH
    return {**options, "minibatch": options["minibatch"] or usual}


def made(options: Mapping[str, Any]) -> Inference:
    """From options that are `checked` and `filled`."""
    step = options.get("step")
    return Inference(**{**options, "step": None if step is None else StepSize(**step)})


def check_inference(kind: str, model: AnyModel, options: Mapping[str, Any]) -> None:
    """Raises OptionsError if a model cannot be inferred so, or an option would mean nothing."""
    method = options["method"]
    if method not in model.methods:
        rule = f"must be {' or '.join(model.methods)} with the model {kind}"
        raise OptionsError("method", rule, method)
    METHODS[method].check(options)
    if options.get("local_iterations") is not None and (
        isinstance(model, Filter) or not isinstance(model, Latent | Lda)
    ):
        rule = f"means nothing with the model {kind}, whose minibatches need no passes: leave it out"
        raise OptionsError("local_iterations", rule, options["local_iterations"])
