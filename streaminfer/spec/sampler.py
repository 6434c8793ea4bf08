"""What a sampler's options are with a model, and what the rest of a spec must not ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaminfer.models.options import OptionsError
from streaminfer.sampling.choices import checks, combine, defaults
from streaminfer.sampling.settings import Settings
from streaminfer.spec import inference
from streaminfer.spec.data import Data
from streaminfer.spec.fitting import target_for
from streaminfer.variational.settings import Inference


def filled(options: Mapping[str, Any], kind: str, model: Any, partitions: int | None) -> dict[str, Any]:
    """Checked options with the defaults that suit a model and the number of partitions; raises OptionsError."""
    target = target_for(kind, model, options["method"])
    found = defaults.filled(combine.filled(options, target, partitions), target)
    _check_window(found)
    checks.check(found, target)
    return found


def made(options: Mapping[str, Any]) -> tuple[Inference, Settings]:
    """From options that are `filled`: what all services read, and what is of samplers alone."""
    shared = Inference(
        options["method"],
        options.get("minibatch") or inference.MINIBATCH,
        options["linger_ms"],
        0,
        options["snapshot_ms"],
        options["snapshot_events"],
        options["forget"],
    )
    return shared, defaults.made(options)


def _check_window(options: Mapping[str, Any]) -> None:
    """Events count fully or not at all, and replays repeat minibatches."""
    method, forget = options["method"], options["forget"]
    if options["linger_ms"]:
        rule = f"must be 0 with the method {method}, whose data must be the same in every replay: leave it out"
        raise OptionsError("linger_ms", rule, options["linger_ms"])
    if forget is None:
        return
    ((name, value),) = forget.items()
    if name.startswith("half_life"):
        window = name.replace("half_life", "window")
        rule = f"means nothing with the method {method}, for which an event counts fully or not at all: use {window}"
        raise OptionsError(f"forget.{name}", rule, value)
    if options.get("source") == "stream":
        rule = "cannot be set with source: stream, which goes back to no event: leave it out, or use source: segment"
        raise OptionsError("forget", rule, dict(forget))


def check_spec(method: str, subposteriors: int, data: Data, sections: Mapping[str, Any]) -> None:
    """Raises OptionsError, with the section in its name, where the spec has what samplers do not."""
    why = {
        "key": "a chain is of one posterior of all events",
        "drift": "its scores are of whole segments",
    }
    for name, reason in why.items():
        if sections.get(name) is not None:
            rule = f"must not be set with the method {method}: {reason}; leave it out, or use svb"
            raise OptionsError(name, rule, sections[name])
    if subposteriors > 1 and data.partitions is None:
        rule = f"must be 1 with data.topic, as the spec does not say how many partitions {data.topic!r} has"
        raise OptionsError("inference.subposteriors", rule, subposteriors)
    if data.partitions is not None and subposteriors > data.partitions:
        rule = f"must be at most data.partitions, which is {data.partitions}: each has partitions of its own"
        raise OptionsError("inference.subposteriors", rule, subposteriors)
