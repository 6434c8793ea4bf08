"""The options of a sampler that depend on others or on the target, filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from streaminfer.models.targets.reading import DOCUMENTS, reading_of
from streaminfer.sampling import flat
from streaminfer.sampling.choices import combine
from streaminfer.sampling.choices.methods import expands, has_bias_step, is_bounded, missing
from streaminfer.sampling.choices.options import LARGEST, STEP_KEYS
from streaminfer.sampling.kernels import mala, mh
from streaminfer.sampling.settings import BoundRule, Settings, StepRule, Stopping

BIAS: Final = 0.05
DRAWS: Final = 1000
LEAST_TOPICS, MOST_TOPICS = 10, 100
"""Draws of topics by each chain."""
TOPICS_NUMBERS: Final = 1 << 22
"""Numbers that all draws of topics together have, if that is within those bounds: 32 MB."""
WALKS: Final = ("mh", "subsampled_mh", "poisson_mh")
"""Random walks."""
SUBSETS: Final = ("subsampled_mh", "poisson_mh")
"""Those whose decisions read a part of the events."""
MARGIN: Final = 1.5
"""Where bounds of flymc touch that have no mode."""
SIZES: Final[Mapping[str, float]] = {"sgld": 0.001, "sghmc": 0.0005, "sgnht": 0.005}
"""Sizes of steps if second derivatives are not known, or not used.

They suit some posteriors only: `rms` does not know how wide a posterior is. The noise of gradients grows like N, and so
does the error.
"""
SGRLD_SIZE: Final[Mapping[str, Callable[[int], float]]] = {
    # A transition of time eps has eps N / (4 B) more variance than the posterior: here B / 10 is divided by N.
    "cir": lambda minibatch: 0.1 * minibatch,
    "euler": lambda minibatch: 0.01,  # noqa: ARG005
}


def filled(options: Mapping[str, Any], target: Any) -> dict[str, Any]:
    """Checked options with all defaults; a key that is still None has no value."""
    found = dict(options)
    for name, choose in _CHOICES.items():
        if name in found and found[name] is None:
            found[name] = choose(found, target)
    if "step" in found:
        found["step"] = _step(found)
    return {**found, **_tests(found, target), **_bound(found, target)}


def is_modal(options: Mapping[str, Any], target: Any) -> bool:
    """Whether mode and curvature there are known before the first step: not if events only pass by."""
    return has_bias_step(target) and options.get("source") != "stream"


def _start(options: Mapping[str, Any], target: Any) -> str:
    """From the prior a chain may take longer to the posterior than it has steps, and may end in a poor mode."""
    return "mode" if missing(target, "mala") is None and options.get("source") != "stream" else "prior"


def moves_by_walk(options: Mapping[str, Any]) -> bool:
    """Whether proposals are a random walk, which takes many steps from one place to another."""
    return options["method"] in WALKS or options.get("proposal") == "random_walk"


def _thin(options: Mapping[str, Any], target: Any) -> int | None:
    """Of stochastic gradients it follows from the size of steps."""
    if moves_by_walk(options):
        return max(1, int(target.dimension))
    return 1 if options["method"] in {"mala", "gibbs", "flymc"} else None


def _batches(options: Mapping[str, Any], _target: Any) -> str | None:
    return None if options.get("source") == "stream" else "random"


def _precondition(options: Mapping[str, Any], target: Any) -> str:
    if is_modal(options, target):
        return "mode"
    return "none" if options["method"] == "mala" else "rms"


def _control_variates(options: Mapping[str, Any], target: Any) -> bool | int:
    """Of gradients whether they are used, of decisions on subsets the order of expansions."""
    if options["method"] in SUBSETS:
        return 2 if expands(target) else 0
    return is_modal(options, target)


def _tests(options: Mapping[str, Any], target: Any) -> dict[str, Any]:
    """`test` and `correct` with a rule and an order that suit the target."""
    found: dict[str, Any] = {}
    for name in ("test", "correct"):
        if (given := options.get(name)) is None:
            continue
        made = dict(given)
        if name == "correct" and made["order"] is None:
            made["order"] = 2 if expands(target) else 0
        order = made["order"] if name == "correct" else options["control_variates"]
        if made["rule"] is None:
            made["rule"] = "bernstein_serfling" if is_bounded(target, order) else "t"
        found[name] = made
    return found


def _bound(options: Mapping[str, Any], target: Any) -> dict[str, Any]:
    """`bound` with places where bounds touch: at the mode, if there is one."""
    if (given := options.get("bound")) is None:
        return {}
    tune = given["tune"] or ("mode" if missing(target, "mala") is None else "none")
    at = MARGIN if tune == "none" and given["at"] is None else given["at"]
    return {"bound": {**given, "tune": tune, "at": at}}


def _adapt(options: Mapping[str, Any], _target: Any) -> str:
    return "never" if (options["step"] or {}).get("size") is not None else "warmup"


def _draws(options: Mapping[str, Any], target: Any) -> int:
    """Draws of topics are large, and the steps between them take long; a mean of topics needs few."""
    if reading_of(target) is not DOCUMENTS:
        return DRAWS
    numbers = int(options["chains"]) * max(1, flat.size(target.shapes))
    wanted = max(LEAST_TOPICS, min(MOST_TOPICS, TOPICS_NUMBERS // numbers))
    return max(1, min(LARGEST // numbers, wanted))


_CHOICES: Final[Mapping[str, Callable[[Mapping[str, Any], Any], Any]]] = {
    "draws": _draws,
    "start": _start,
    "thin": _thin,
    "batches": _batches,
    "precondition": _precondition,
    "control_variates": _control_variates,
    "adapt": _adapt,
}


def _step(options: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a step that are set; of sizes all."""
    step = {name: value for name, value in (options["step"] or {}).items() if value is not None}
    if "accept" in STEP_KEYS[options["method"]]:
        return step or {"accept": mh.ACCEPT if moves_by_walk(options) else mala.ACCEPT}
    if not step and options.get("precondition") == "mode":
        return {"bias": BIAS}
    if "bias" in step:
        return step
    return {**({} if step else {"size": _size(options)}), **_SCHEDULE, **step}


_PLAIN: Final = StepRule()
_SCHEDULE: Final = {"after": _PLAIN.after, "power": _PLAIN.power, "floor": _PLAIN.floor}


def _size(options: Mapping[str, Any]) -> float:
    if options["method"] == "sgrld":
        return SGRLD_SIZE[options["transition"]](options["minibatch"])
    return SIZES[options["method"]]


def made(options: Mapping[str, Any]) -> Settings:
    """From options that are `filled` and checked."""
    step = options.get("step")
    said: dict[str, Any] = {each.name: options.get(each.name) for each in fields(Settings)}
    said["step"] = None if step is None else StepRule(**step)
    for name in ("test", "correct"):
        given = options.get(name)
        said[name] = None if given is None else Stopping(**given)
    said["combine"] = combine.made(options["combine"])
    said["bound"] = None if options.get("bound") is None else BoundRule(**options["bound"])
    return Settings(**said)
