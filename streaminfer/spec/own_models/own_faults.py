"""What is wrong with a class that should be a model, and with the model it builds: one clause for each fault.

Members are those of the protocols in `streaminfer.models.model`; later faults may only make sense without earlier ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from streaminfer.models.events import RULES, Field
from streaminfer.models.model import AnyModel, Conjugate, Filter, Latent, Model
from streaminfer.models.options import Option, Section
from streaminfer.variational.methods import METHODS

EXACTNESS: Final = ("exact", "bound", "approximate")
FIELD_KINDS: Final = tuple(kind for kind in RULES if kind not in {"key", "time", "tokens"})
LONGEST: Final = 200
ALL: Final = (AnyModel, Model)
"""What every model of a user is."""
SORTS: Final[Mapping[str, type]] = {"statistics": Conjugate, "expected": Latent, "absorb": Filter}
"""The sort of a model, by the member that no other sort has."""


def of_class(made: type[Any]) -> Iterator[str]:
    """What of a class is not as `Model` and its sort ask."""
    for sort in (*ALL, *_sorts(made)):
        said = f"which {'every model' if sort in ALL else f'a {sort.__name__} model'} has"
        yield from (f"has no {name}, {said}" for name in inspect.get_annotations(sort) if not hasattr(made, name))
        yield from (f"has no method {name}, {said}" for name in _methods(sort) if not _is_method(made, name))
    if not _sorts(made):
        yield f"has none of the methods {', '.join(SORTS)}, one of which says how it learns from events"
    yield from of_section(made)
    yield from _of_inference(made)


def of_section(made: type[Any]) -> Iterator[str]:
    """What of its kind and options is not as a spec asks."""
    if not isinstance(made.kind, str):
        yield f"has a kind that is not a text, but {short(made.kind)}"
    yield from _of_options(made.options)


def _of_options(section: Any) -> Iterator[str]:
    """The last one is the prior. Nothing in it may be required, as a spec may leave it out."""
    if not isinstance(section, Section):
        yield f"has options that are not a Section, but {short(section)}"
    if not section.options or not all(isinstance(option, Option) for option in section.options):
        yield f"has options that are not a Section of one Option or more, but {short(section)}"
    if any(option.name == "kind" for option in section.options):
        yield "has an option named kind, which in a spec is the name of the class"
    prior = section.options[-1]
    if prior.name != "prior" or not isinstance(prior.rule, Section):
        yield f"has options of which the last is not the Section prior, but {short(prior.name)}"
    yield from (f"has a prior whose {option.name} has no default" for option in prior.rule.options if option.required)


def _of_inference(made: Any) -> Iterator[str]:
    methods, sorts = made.methods, _sorts(made)
    if not isinstance(methods, tuple) or not methods or not all(method in METHODS for method in methods):
        yield f"has methods that are not a tuple of one or more of {', '.join(METHODS)}, but {short(methods)}"
    for method in ("svi", "memoized"):
        if method in methods and Latent not in sorts:
            yield f"has {method} among its methods, which needs expected and elbo"
    if made.exactness not in EXACTNESS:
        yield f"has an exactness that is not one of {', '.join(EXACTNESS)}, but {short(made.exactness)}"
    if not isinstance(made.needs_base, bool):
        yield f"has a needs_base that is neither True nor False, but {short(made.needs_base)}"
    if Conjugate not in sorts and not made.needs_base:
        yield "has a needs_base that is False, but without statistics what it learns depends on a posterior"


def of_model(model: Any) -> Iterator[str]:
    """What of a model is not as its sort asks; it ends with the posterior of no events."""
    for sort in (*ALL, *_sorts(model)):
        yield from (f"has no {name}" for name in _properties(sort) if not hasattr(model, name))
    yield from of_fields(model)
    yield from _of_no_events(model)


def of_fields(model: Any) -> Iterator[str]:
    """What of its fields and labels is not as events need it."""
    fields = model.fields
    if not isinstance(fields, tuple) or not fields or not all(isinstance(each, Field) for each in fields):
        yield f"has fields that are not a tuple of one Field or more, but {short(fields)}"
    known = ", ".join(FIELD_KINDS)
    odd = (each for each in fields if each.kind not in FIELD_KINDS)
    yield from (
        f"has a field {short(each.name)} whose kind is not one of {known}, but {short(each.kind)}" for each in odd
    )
    names = [each.name for each in fields]
    if len(set(names)) < len(names):
        yield f"has two fields of one name among {short(names)}"
    if not isinstance(model.labels, Mapping):
        yield f"has labels that are not a mapping, but {short(model.labels)}"


def _of_no_events(model: Any) -> Iterator[str]:
    size, empty = model.size, model.empty()
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        yield f"has a size that is not a whole number above 0, but {short(size)}"
    if not _is_vector(empty) or len(empty) != size:
        yield f"has an empty() that is not an array of {size} finite numbers of float64, but {short(empty)}"
    if not np.all(model.proper(empty[None])):
        yield "has a proper() that refuses empty()"
    prior = model.posterior(empty)
    if not isinstance(prior.family, str) or not 1 <= len(prior.family) <= LONGEST:
        yield f"has a posterior whose family is not a text of 1 to {LONGEST} characters, but {short(prior.family)}"
    if not _is_vector(prior.natural):
        yield f"has a posterior whose natural is not an array of finite numbers of float64, but {short(prior.natural)}"
    if not prior.moments():
        yield "has a posterior whose moments() do not name a parameter"
    if hasattr(model, "inputs"):
        yield from _of_predictions(model, prior)


def _of_predictions(model: Any, prior: Any) -> Iterator[str]:
    """A model need not predict; one with inputs does."""
    inputs, outputs = model.inputs, getattr(model, "outputs", None)
    if not isinstance(inputs, tuple) or not all(each in model.fields for each in inputs):
        yield f"has inputs that are not a tuple of some of its fields, but {short(inputs)}"
    if not isinstance(outputs, tuple) or not all(isinstance(each, str) for each in outputs):
        yield f"has inputs, but outputs that are not a tuple of texts, but {short(outputs)}"
    if not callable(getattr(prior, "predict", None)):
        yield "has inputs, but a posterior without the method predict"
    found = prior.predict(np.empty((0, len(inputs))), 0.95)
    if not isinstance(found, dict) or not found or not all(map(_is_of_no_rows, found.items())):
        yield (
            "has a posterior whose predict() of no rows is not a dictionary of names with arrays (0,) or (0, k), but "
            f"{short(found)}"
        )
    if outputs and any(each.ndim == 2 and each.shape[1] != len(outputs) for each in found.values()):
        yield f"has a posterior whose predict() has arrays of other than the {len(outputs)} columns of its outputs"


def _sorts(made: object) -> list[type]:
    return [sort for member, sort in SORTS.items() if hasattr(made, member)]


def _methods(sort: type) -> list[str]:
    return [name for name, member in vars(sort).items() if name[0] != "_" and not isinstance(member, property)]


def _properties(sort: type) -> list[str]:
    return [name for name, member in vars(sort).items() if name[0] != "_" and isinstance(member, property)]


def _is_method(made: type[Any], name: str) -> bool:
    return callable(getattr(made, name, None))


def _is_vector(value: Any) -> bool:
    good = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == np.float64
    return good and bool(np.isfinite(value).all())


def _is_of_no_rows(item: tuple[object, Any]) -> bool:
    name, values = item
    return isinstance(name, str) and isinstance(values, np.ndarray) and values.ndim in {1, 2} and not len(values)


def short(value: object) -> str:
    """A value as an error shows it."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
