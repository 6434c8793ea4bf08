"""Whether the options of a sampler fit together and fit its target; they are `filled`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from streaminfer.models.options import OptionsError
from streaminfer.models.targets.kinds.gaussian_mixture import GaussianMixture
from streaminfer.sampling.choices.defaults import SUBSETS
from streaminfer.sampling.choices.methods import BIAS_NEEDS, BOUNDED, NEEDS, has_bias_step, is_bounded
from streaminfer.sampling.choices.options import LARGEST, STEP_KEYS

_CURVED: Final = (*NEEDS["mala"], *BIAS_NEEDS)
"""What a mode with its second derivatives needs."""


def check(options: Mapping[str, Any], target: Any) -> None:
    """Raises OptionsError that names the first option that does not fit."""
    _check_variates(options)
    _check_stream(options)
    _check_mode(options, target)
    _check_step(options, target)
    _check_learning(options)
    _check_subsets(options, target)
    _check_bound(options, target)
    _check_subposteriors(options, target)
    _check_draws(options, target)


def _check_variates(options: Mapping[str, Any]) -> None:
    """Control variates of gradients are used or not, those of decisions on subsets have an order."""
    given, method = options.get("control_variates"), options["method"]
    if given is None or isinstance(given, bool) != (method in SUBSETS):
        return
    kind = "0, 1 or 2" if method in SUBSETS else "true or false"
    raise OptionsError("control_variates", f"must be {kind} with the method {method}: correct it", given)


def _check_stream(options: Mapping[str, Any]) -> None:
    """Nobody goes back to events that only pass by."""
    if options.get("source") != "stream":
        if options.get("population") is not None:
            rule = "means nothing with source: segment, whose events are counted: leave it out, or set source: stream"
            raise OptionsError("population", rule, options["population"])
        return
    why = "with source: stream, whose events are seen once"
    if options["batches"] is not None:
        raise OptionsError("batches", f"means nothing {why}, as they arrive: leave it out", options["batches"])
    if options["start"] == "mode":
        raise OptionsError("start", f"must be prior {why}: leave it out, or use source: segment", "mode")
    if options["precondition"] == "mode":
        raise OptionsError("precondition", f"must be rms or none {why}: leave it out, or use source: segment", "mode")
    if options["control_variates"]:
        rule = f"must be false {why}: leave it out, or use source: segment"
        raise OptionsError("control_variates", rule, options["control_variates"])
    if (options["step"] or {}).get("bias") is not None:
        rule = f"cannot be set {why}: set step.size instead, or use source: segment"
        raise OptionsError("step.bias", rule, options["step"]["bias"])


def _check_mode(options: Mapping[str, Any], target: Any) -> None:
    """Without second derivatives a mode is only looked for if chains start there."""
    lacks = _lacking(target, _CURVED)
    if options["start"] == "mode" and (gradient := _lacking(target, NEEDS["mala"])) is not None:
        rule = f"must be prior, as the model has no {gradient}, by which a mode is found: leave it out"
        raise OptionsError("start", rule, "mode")
    if options.get("precondition") == "mode" and lacks is not None:
        others = "none" if options["method"] == "mala" else "rms or none"
        rule = f"must be {others}, as the model has no {lacks}: leave it out"
        raise OptionsError("precondition", rule, "mode")
    if options.get("control_variates") and lacks is not None and options["start"] == "prior":
        rule = f"must be false with start: prior, as the model has no {lacks} and so no mode is known: leave it out"
        raise OptionsError("control_variates", rule, True)


def _lacking(target: Any, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if not hasattr(target, name)), None)


def _check_step(options: Mapping[str, Any], target: Any) -> None:
    step, method = options.get("step"), options["method"]
    if step is None:
        return
    for name in step:
        if name not in STEP_KEYS[method]:
            owners = " or ".join(each for each, keys in STEP_KEYS.items() if name in keys)
            rule = f"means nothing with the method {method}, only with {owners}: leave it out"
            raise OptionsError(f"step.{name}", rule, step[name])
    first = "accept" if "accept" in STEP_KEYS[method] else "bias"
    if first in step and len(step) > 1:
        other = next(name for name in step if name != first)
        rule = f"means nothing if step has {first}: set {other} without {first}, or leave it out"
        raise OptionsError(f"step.{other}", rule, step[other])
    if first not in step and "size" not in step:
        raise OptionsError("step", "must have size, if it has after, power or floor: add it", step)
    if step.get("floor", 0) > step.get("size", math.inf):
        raise OptionsError("step.floor", "must be at most step.size, as steps fall to it: lower it", step["floor"])
    if "bias" in step:
        _check_bias(options, target)


def _check_bias(options: Mapping[str, Any], target: Any) -> None:
    bias = options["step"]["bias"]
    if not has_bias_step(target):
        lacks = _lacking(target, _CURVED)
        rule = f"needs second derivatives, and the model has no {lacks}: set step.size instead"
        raise OptionsError("step.bias", rule, bias)
    if options["precondition"] != "mode":
        rule = f"needs precondition: mode, and it is {options['precondition']}: set step.size instead"
        raise OptionsError("step.bias", rule, bias)


def _check_learning(options: Mapping[str, Any]) -> None:
    """Steps of a given size are not learned, and those that are to be learned need an acceptance."""
    adapt = options.get("adapt")
    if adapt == "never" and "accept" in options["step"]:
        rule = "must have size with adapt: never, as nothing is learned: set step: {size: s}, or leave adapt out"
        raise OptionsError("step", rule, options["step"])
    if adapt in {"warmup", "always"} and "size" in options["step"]:
        rule = "must be never if step has a size, which is then kept: leave it out, or set step.accept"
        raise OptionsError("adapt", rule, adapt)
    if options.get("noise") is not None and options["noise"] > options["friction"]:
        rule = "must be at most friction, as the noise of sghmc is what friction takes less this: lower it"
        raise OptionsError("noise", rule, options["noise"])


def _check_subsets(options: Mapping[str, Any], target: Any) -> None:
    """Expansions need an anchor, and certified rules the bounds of what expansions leave out."""
    correct, test = options.get("correct"), options.get("test")
    if correct is None and options["method"] not in SUBSETS:
        return
    if correct is not None and options["source"] == "stream":
        rule = "means nothing with source: stream, whose events are seen once: leave it out, or use source: segment"
        raise OptionsError("correct", rule, {name: value for name, value in correct.items() if value is not None})
    field = "control_variates" if correct is None else "correct.order"
    order = options["control_variates"] if correct is None else correct["order"]
    lacks = _lacking(target, (*BOUNDED, *_CURVED))
    if order > 0 and lacks is not None:
        rule = f"must be 0, as the model has no {lacks}, which an expansion at the mode needs: leave it out"
        raise OptionsError(field, rule, order)
    by = (correct or test or {"rule": "poisson_mh"})["rule"]
    if by == "t" or is_bounded(target, order):
        return
    if (missing := _lacking(target, BOUNDED)) is not None:
        rule = f"needs {' and '.join(BOUNDED)}, and the model has no {missing}: use the rule t"
        raise OptionsError("test.rule" if correct is None else "correct.rule", rule, by)
    others = " or ".join(str(each) for each in range(3) if is_bounded(target, each))
    derivative = ("first", "second", "third")[order]
    rule = f"must be {others} with {by}, as the {derivative} of the model's derivative_bounds is None: set it"
    raise OptionsError(field, rule, order)


def _check_bound(options: Mapping[str, Any], target: Any) -> None:
    """Bounds of flymc touch at a mode, and Langevin steps go along gradients: a model must know them."""
    if options["method"] != "flymc":
        return
    bound, lacks = options["bound"], _lacking(target, NEEDS["mala"])
    if bound["tune"] == "mode" and bound["at"] is not None:
        rule = "means nothing with tune: mode, where bounds touch at the mode: leave it out, or set tune: none"
        raise OptionsError("bound.at", rule, bound["at"])
    if lacks is None:
        return
    if bound["tune"] == "mode":
        raise OptionsError("bound.tune", f"must be none, as the model has no {lacks}, by which a mode is found", "mode")
    if options["proposal"] == "langevin":
        raise OptionsError("proposal", f"must be random_walk, as the model has no {lacks}: leave it out", "langevin")


def _check_subposteriors(options: Mapping[str, Any], target: Any) -> None:
    """Chains of one of J parts have the prior to the power of 1/J."""
    parts = options["subposteriors"]
    if parts == 1:
        return
    if options["method"] == "gibbs" and not target.tempers(1 / parts):
        rule = (
            f"must be 1 with the method gibbs and this model: its prior to the power of 1/{parts} has no closed form; "
            "leave it out, or use another method"
        )
        raise OptionsError("subposteriors", rule, parts)
    if isinstance(target, GaussianMixture) and not target.is_proper_prior(1 / parts):
        rule = (
            f"must be fewer: the prior of a component to the power of 1/{parts} has no finite integral, and a "
            "component may have no events; raise model.prior.dof"
        )
        raise OptionsError("subposteriors", rule, parts)


def _check_draws(options: Mapping[str, Any], target: Any) -> None:
    """What a master can hold, and topics keep."""
    width = sum(math.prod(shape) for shape in target.shapes.values())
    chains, draws = options["chains"], options["draws"]
    if chains * width > LARGEST:
        rule = (
            f"must be at most {LARGEST // width}, as a draw has {width} numbers and all chains together {LARGEST} at "
            "most: set fewer chains, or make the model smaller"
        )
        raise OptionsError("chains", rule, chains)
    if chains * draws * width > LARGEST:
        rule = (
            f"must be at most {LARGEST // (chains * width)} with {chains} chains and {width} numbers in a draw, "
            f"{LARGEST} numbers in all: set fewer draws or chains, and a larger thin"
        )
        raise OptionsError("draws", rule, draws)
