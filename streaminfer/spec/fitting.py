"""Which methods fit a model: variational ones as its class says, samplers by the members of its target."""

from __future__ import annotations

from typing import Any

from streaminfer.models.model import AnyModel
from streaminfer.models.options import OptionsError
from streaminfer.models.targets import target_of
from streaminfer.sampling.choices import methods
from streaminfer.sampling.choices.options import OPTIONS


def fitting(model: Any) -> tuple[str, ...]:
    """The names of all methods that fit a model."""
    try:
        samplers = methods.fitting(target_of(model))
    except TypeError:
        samplers = ()
    return (*getattr(model, "methods", ()), *(name for name in samplers if name in OPTIONS))


def check_method(kind: str, model: AnyModel, method: str) -> None:
    """Raises OptionsError if a model cannot be learned by a variational method."""
    if method not in model.methods:
        raise OptionsError("method", f"must be {_names(model)} with the model {kind}", method)


def target_for(kind: str, model: Any, method: str) -> Any:
    """The target that a sampler draws from; raises OptionsError if the model cannot be sampled by it."""
    try:
        target = target_of(model)
    except TypeError as error:
        raise OptionsError("method", f"must be {_names(model)} with the model {kind}: {error}", method) from error
    lacks = methods.missing(target, method)
    if lacks is not None:
        rule = f"must be {_names(model)} with the model {kind}: {method} needs {lacks}, which it does not have"
        raise OptionsError("method", rule, method)
    return target


def _names(model: Any) -> str:
    return " or ".join(fitting(model)) or "another"
