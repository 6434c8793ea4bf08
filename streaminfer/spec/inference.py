"""The spec's section `inference`: the options that every method has, and those of the method that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from streaminfer.models.binary import regression
from streaminfer.models.did_you_mean import unknown_name
from streaminfer.models.lda.model import Lda
from streaminfer.models.model import AnyModel, Filter, Latent
from streaminfer.models.options import Choice, Either, Integer, Option, OptionsError, Problem, Section
from streaminfer.sampling.choices import options as sampling
from streaminfer.spec import fitting
from streaminfer.variational.forgetting.rules import FORGET
from streaminfer.variational.methods import METHODS
from streaminfer.variational.settings import Inference
from streaminfer.variational.steps import StepSize

MINIBATCH: Final = 256
"""Positions of a minibatch if neither the spec nor its model (`usual_minibatch`) says how many."""
LINGER_MS: Final = 50
"""How long events wait for a full minibatch if the spec does not say so."""
USUAL: Final = "svb"

METHOD: Final = Option("method", Choice((*METHODS, *sampling.OPTIONS)), "The method of inference.", USUAL)
_MINIBATCH: Final = Option(
    "minibatch",
    Integer(1, 1_000_000),
    f"Minibatches end at multiples of this many positions. Not set means {MINIBATCH}, with a diagonal "
    f"covariance {regression.DIAGONAL_MINIBATCH}.",
    None,
)
_LINGER_MS: Final = Option(
    "linger_ms",
    Integer(0, 3_600_000),
    "How long events may wait for a full minibatch; 0: always, so that boundaries depend on positions alone. "
    f"Not set means {LINGER_MS}, with the method memoized and samplers 0.",
    None,
)
_MAX_STALENESS: Final = Option(
    "max_staleness",
    Integer(0, 10_000),
    "Minibatches a worker may be ahead of the posterior it starts from, for models that need one.",
    8,
)
_SNAPSHOTS: Final = (
    Option(
        "snapshot_ms",
        Integer(1, 3_600_000),
        "The longest time between a change and its snapshot, unless much data waits.",
        50,
    ),
    Option("snapshot_events", Integer(1, 10**12), "A snapshot comes at once after this many events.", 100_000),
)
_WINDOW: Final = Option(
    "forget", FORGET, "With a sampler only by windows: a segment is then the events of the window.", None
)


def _at_once(options: dict[str, Any]) -> dict[str, Any]:
    """Minibatches of a sampler are the same in every replay."""
    return options if options["linger_ms"] is not None else {**options, "linger_ms": 0}


class Row(NamedTuple):
    """What a method may be told."""

    options: tuple[Option, ...]
    complete: Callable[[dict[str, Any]], dict[str, Any]]


_VARIATIONAL: Final = (METHOD, _MINIBATCH, _LINGER_MS, _MAX_STALENESS, *_SNAPSHOTS)
_SAMPLER: Final = (METHOD, _LINGER_MS, *_SNAPSHOTS, _WINDOW)
ROWS: Final[Mapping[str, Row]] = {
    **{each.name: Row((*_VARIATIONAL, *each.options), each.complete) for each in METHODS.values()},
    **{name: Row((*_SAMPLER, *options), _at_once) for name, options in sampling.OPTIONS.items()},
}
"""All methods."""
SECTIONS: Final[Mapping[str, Section]] = {name: Section(row.options, row.complete) for name, row in ROWS.items()}
"""What the section may say, by the method that it names."""


def _merged(options: Iterable[Option]) -> list[Option]:
    """One option for each name, with all rules and texts that methods have for it."""
    found: dict[str, list[Option]] = {}
    for option in options:
        found.setdefault(option.name, []).append(option)
    return [same[0] if len(same) == 1 else _joined(same) for same in map(_different, found.values())]


def _different(options: list[Option]) -> list[Option]:
    return [each for i, each in enumerate(options) if each not in options[:i]]


def _joined(options: list[Option]) -> Option:
    rules = [each.rule for i, each in enumerate(options) if each.rule not in [other.rule for other in options[:i]]]
    rule = rules[0] if len(rules) == 1 else Either(tuple(rules))
    return Option(options[0].name, rule, " ".join(each.doc for each in options), options[0].default)


EVERY: Final = Section(_merged(option for row in ROWS.values() for option in row.options))
"""All options of all methods."""


def is_sampler(method: object) -> bool:
    """Whether a method draws from a posterior."""
    return isinstance(method, str) and method in sampling.OPTIONS


def checked(value: object, problems: list[Problem]) -> dict[str, Any]:
    """The options of a section by the method that it names, checked and with their defaults."""
    method = value.get("method") or USUAL if isinstance(value, Mapping) else USUAL
    known = isinstance(method, str) and method in ROWS
    section = SECTIONS[method if known else USUAL]
    if not isinstance(value, Mapping):
        return section.check(value, "inference", problems)
    own = {option.name for option in section.options}
    foreign = {option.name: option for option in EVERY.options if option.name not in own and option.name in value}
    for name, option in foreign.items():
        if value[name] is not None and known:
            wrong: list[Problem] = []
            given = option.rule.check(value[name], f"inference.{name}", wrong)
            problems += wrong or [_meaningless(name, given, method)]
    names = {option.name for option in EVERY.options}
    listed = [option.name for option in (section if known else EVERY).options]
    for key in value:
        if key not in names:
            rule = unknown_name(str(key), listed, f"key with the method {method}" if known else "key")
            problems.append(Problem(f"inference.{key}", rule, value[key]))
    options = section.check({k: v for k, v in value.items() if k in own}, "inference", problems)
    if options.get("linger_ms") is None:
        options["linger_ms"] = LINGER_MS
    return options


def _meaningless(name: str, value: object, method: str) -> Problem:
    """An option that only other methods have."""
    owners = [each for each, row in ROWS.items() if name in {option.name for option in row.options}]
    rule = f"means nothing with the method {method}, only with {' or '.join(owners)}: leave it out"
    if isinstance(value, Mapping):
        value = {key: said for key, said in value.items() if said is not None}
    return Problem(f"inference.{name}", rule, value)


def filled(options: Mapping[str, Any], model: AnyModel) -> dict[str, Any]:
    """Checked options of a variational method, with the minibatch that a model is usually learned by."""
    usual = getattr(model, "usual_minibatch", None) or MINIBATCH
    return {**options, "minibatch": options["minibatch"] or usual}


def made(options: Mapping[str, Any]) -> Inference:
    """From options of a variational method that are `checked` and `filled`."""
    step = options.get("step")
    return Inference(**{**options, "step": None if step is None else StepSize(**step)})


def check_inference(kind: str, model: AnyModel, options: Mapping[str, Any]) -> None:
    """Raises OptionsError if a model cannot be learned by a variational method so, or an option would mean nothing."""
    fitting.check_method(kind, model, options["method"])
    METHODS[options["method"]].check(options)
    if options.get("local_iterations") is not None and (
        isinstance(model, Filter) or not isinstance(model, Latent | Lda)
    ):
        rule = f"means nothing with the model {kind}, whose minibatches need no passes: leave it out"
        raise OptionsError("local_iterations", rule, options["local_iterations"])
