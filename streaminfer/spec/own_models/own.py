"""Models of a user's own: `package.module:Class` in the place of a kind, imported and checked.

To import a module is to run its code: the author of the spec decides that. Whatever is wrong with the class is an error
of the spec, found before any service starts to work.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final, TypeGuard

from streaminfer.models.model import Model
from streaminfer.models.options import OptionsError, Problem
from streaminfer.spec.own_models import own_faults, target_faults

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
PATTERN: Final = rf"{_NAME}(?:\.{_NAME})*:{_NAME}"
LONGEST: Final = 200
_RULE: Final = (
    "must be the name of a model, or package.module:Class for a class of your own: letters, digits and _, dots before "
    f"the colon, at most {LONGEST} characters"
)
_HINT: Final = " for variational methods (for samplers, name one as inference.method)"
VARIABLE: Final = "STREAMINFER_OWN_MODELS"
NONE: Final = "none"
_PLAIN: Final = (str, bool, int, float, type(None))


def is_own(kind: object) -> TypeGuard[str]:
    """Whether it is meant to be a class: no name in the table of models has a colon or a dot."""
    return isinstance(kind, str) and (":" in kind or "." in kind)


def found(kind: str, sampled: bool = False) -> type[Model]:
    """The class of that name, with all that a model must have; raises OptionsError.

    One that is `sampled` need not have what only variational methods ask of a model.
    """
    if len(kind) > LONGEST or not re.fullmatch(PATTERN, kind):
        raise OptionsError("kind", _RULE, kind)
    _check_allowed(kind.partition(":")[0])
    with _reported("to look at its members", kind):
        made = _imported(kind)
        fault = next(target_faults.of_class(made) if sampled else own_faults.of_class(made), None)
        hint = "" if sampled or not target_faults.is_for_samplers(made) else _HINT
    if fault is not None:
        raise OptionsError("kind", f"must name a model, but the class {fault}{hint}; see docs/own-models.md", kind)
    return made


def _check_allowed(module: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raises OptionsError if this installation limits the modules that specs may import, and to others."""
    limit = environ.get(VARIABLE)
    if limit is None:
        return
    prefixes = [each.strip() for each in limit.split(",")]
    if prefixes != [NONE] and any(f"{module}.".startswith(f"{each}.") for each in prefixes if each):
        return
    allowed = "none may be" if prefixes == [NONE] else f"only {', '.join(filter(None, prefixes)) or 'none'} may be"
    raise OptionsError("kind", f"must be in a module that may be imported here: {VARIABLE} says that {allowed}", module)


def checked(kind: str, given: Mapping[Any, Any], problems: list[Problem], sampled: bool = False) -> dict[str, Any]:
    """The `model` section without its kind, by the options of the class; raises OptionsError."""
    own = found(kind, sampled)
    with _reported("to check its options", kind):
        options = own.options.check(given, "model", problems)
    if not problems and not _is_plain(options):
        rule = (
            "must name a model whose options are checked to texts, finite numbers, lists and mappings, as YAML has them"
        )
        raise OptionsError("kind", rule, kind)
    return options


def built(kind: str, options: Mapping[str, Any], sampled: bool = False) -> Model:
    """The model of checked options, once the posterior of no events is right, or its densities; raises OptionsError."""
    own = found(kind, sampled)
    with _reported("to build it", kind):
        model = own.build(options)
    with _reported("to ask for its densities" if sampled else "to make the posterior of no events", kind):
        fault = next(target_faults.of_model(model) if sampled else own_faults.of_model(model), None)
    if fault is not None:
        raise OptionsError("kind", f"must name a model, but what it builds {fault}; see docs/own-models.md", kind)
    return model


@contextmanager
def _reported(doing: str, kind: str) -> Iterator[None]:
    """What a user's code raises, as a problem of the spec: type and text, never a traceback."""
    try:
        yield
    except OptionsError:
        raise
    except (Exception, SystemExit) as error:
        raise OptionsError("kind", f"must name a model that works, but {doing} raises {_said(error)}", kind) from error


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _imported(kind: str) -> type[Any]:
    module, _, name = kind.partition(":")
    try:
        with redirect_stdout(sys.stderr):  # on standard output programs may expect JSON, and nothing else
            holder = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise OptionsError("kind", _import_rule(module, error), kind) from error
    if not hasattr(holder, name):
        raise OptionsError("kind", f"must name a class of the module, but {module} has no {name!r}", kind)
    value: object = getattr(holder, name)
    if not isinstance(value, type):
        raise OptionsError("kind", f"must name a class, but {name!r} is a {type(value).__name__}", kind)
    return value


def _import_rule(module: str, error: BaseException) -> str:
    """A module that is missing is another matter than one that needs something that is."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is None or not f"{module}.".startswith(f"{missing}."):
        return f"must be in a module that can be imported, but {module} raises {_said(error)}"
    return (
        f"must be in a module that Python finds, but there is no {missing!r}: install its package for every process of "
        "the spec, or put its folder on their PYTHONPATH; services import nothing from the current directory"
    )


def _is_plain(value: object) -> bool:
    """Whether YAML and JSON can say it; a number of numpy's is none of theirs."""
    if isinstance(value, Mapping):
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN and not (isinstance(value, float) and not math.isfinite(value))
