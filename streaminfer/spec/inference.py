"""The spec's section `inference`: by which method, in which minibatches, how events are forgotten."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models import binary_regression
from streaminfer.models.lda import Lda
from streaminfer.models.model import Filter, Latent, Model
from streaminfer.models.options import Choice, Integer, Number, OneKey, Option, OptionsError, Section

METHODS: Final = ("svb", "svi", "memoized")
MINIBATCH: Final = 256
"""Positions of a minibatch if neither the spec nor its model (`usual_minibatch`) says how many."""
LINGER_MS: Final = 50
"""How long events wait for a full minibatch where nobody says so."""

FORGET: Final = OneKey(
    (
        Option(
            "half_life_events",
            Number(minimum=0.01, maximum=1e15),
            "An event counts half after this many further events of its partition.",
        ),
        Option(
            "half_life_seconds",
            Number(minimum=0.001, maximum=1e12),
            "An event counts half when the newest event of all is this much newer.",
        ),
        Option(
            "window_events",
            Integer(1, 10**15),
            "Only the events at this many last positions of each partition count, to within a 64th.",
        ),
        Option(
            "window_seconds",
            Number(minimum=0.01, maximum=1e12),
            "Only events at most this much older than the newest of all count, to within a 64th.",
        ),
    )
)

TAU: Final = 64.0
KAPPA: Final = 0.7

STEP: Final = Section(
    (
        Option(
            "tau",
            Number(minimum=0.0, maximum=1e9),
            "Delays the schedule (tau + t)^-kappa of steps t = 1, 2, …; not set means 64 where steps are not constant.",
            None,
        ),
        Option(
            "kappa",
            Number(above=0.5, maximum=1.0),
            "How fast the steps of the schedule become smaller; not set means 0.7 where steps are not constant.",
            None,
        ),
        Option(
            "constant",
            Number(above=0.0, maximum=1.0),
            "The size of every step; what is published is then an average of the later posteriors.",
            None,
        ),
    )
)


def _complete(options: dict[str, Any]) -> dict[str, Any]:
    """Steps have sizes where there are steps, also where nobody says which; batches that are met again never linger."""
    if options["method"] == "svi":
        step = options["step"] or STEP.check({}, "step", [])
        if step["constant"] is None:
            step = {**step, "tau": step["tau"] if step["tau"] is not None else TAU, "kappa": step["kappa"] or KAPPA}
        options["step"] = step
    if options["linger_ms"] is None:
        options["linger_ms"] = 0 if options["method"] == "memoized" else LINGER_MS
    return options


INFERENCE: Final = Section(
    (
        Option("method", Choice(METHODS), "The method of inference.", "svb"),
        Option(
            "minibatch",
            Integer(1, 1_000_000),
            f"Minibatches end at multiples of this many positions. Not set means {MINIBATCH}, with a diagonal "
            f"covariance {binary_regression.DIAGONAL_MINIBATCH}.",
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
        Option("forget", FORGET, "How old events lose their weight; not set means that all count alike.", None),
        Option(
            "local_iterations",
            Integer(1, 10_000),
            "Passes over a minibatch at most, if svb learns a model with latent variables. Not set: 100, of lda 20.",
            None,
        ),
        Option("step", STEP, "The sizes of the steps of svi.", None),
        Option(
            "population",
            Integer(1, 10**15),
            "How many events the posterior of svi stands for; not set means as many as were seen so far.",
            None,
        ),
        Option(
            "epochs",
            Integer(1, 10_000),
            "Passes over the data that is there when it comes to rest; what comes later is seen once. Not set means 1.",
            None,
        ),
    ),
    _complete,
)

ONLY_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "forget": ("svb",),
    "local_iterations": ("svb",),
    "step": ("svi",),
    "population": ("svi",),
    "epochs": ("svi", "memoized"),
}
"""Options that mean something with these methods alone."""


@dataclass(frozen=True, slots=True)
class StepSize:
    """The size of step t = 1, 2, ...: `constant`, else (tau + t)^-kappa (Robbins & Monro 1951)."""

    tau: float | None = None
    kappa: float | None = None
    constant: float | None = None

    def at(self, t: int) -> float:
        if self.constant is not None:
            return self.constant
        return float(((TAU if self.tau is None else self.tau) + t) ** -(self.kappa or KAPPA))

    def left(self, n: int) -> float:
        """What n steps leave of where they began: (1 - rho_1) ... (1 - rho_n)."""
        if self.constant is not None:
            return (1 - self.constant) ** n
        total, (blocks, rest) = 0.0, divmod(n, BLOCK)
        for i in range(blocks):
            total += _block(self, i)
            if total < NOTHING:
                return 0.0
        return math.exp(total + (float(_logs(self, blocks)[rest - 1]) if rest else 0.0))


BLOCK: Final = 4096
NOTHING: Final = -100.0
"""The log of what is nothing."""


@cache
def _block(step: StepSize, block: int) -> float:
    """The sum of log(1 - rho) over a block of steps."""
    return float(_logs(step, block)[-1])


@lru_cache(maxsize=8)
def _logs(step: StepSize, block: int) -> NDArray[np.float64]:
    """The same over its first, its first two and so on; the size of a first step may be 1."""
    sizes = np.array([step.at(t) for t in range(BLOCK * block + 1, BLOCK * (block + 1) + 1)])
    return np.asarray(np.cumsum(np.log1p(-np.minimum(sizes, 1 - 2.0**-53))), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Inference:
    """How events become a posterior."""

    method: str
    minibatch: int
    linger_ms: int
    max_staleness: int
    snapshot_ms: int
    snapshot_events: int
    forget: Mapping[str, float] | None = None
    local_iterations: int | None = None
    step: StepSize | None = None
    population: int | None = None
    epochs: int | None = None

    @property
    def n_epochs(self) -> int:
        """How many passes there are."""
        return self.epochs or 1

    @property
    def meaning(self) -> dict[str, Any]:
        """What of it changes what an increment or a posterior means; only what is set."""
        said = {
            "forget": None if self.forget is None else dict(self.forget),
            "local_iterations": self.local_iterations,
            "step": None if self.step is None else asdict(self.step),
            "population": self.population,
            "epochs": self.n_epochs if self.n_epochs > 1 else None,
            "minibatch": self.minibatch if self.method == "memoized" else None,  # it says which events are a batch
        }
        return {name: value for name, value in said.items() if value is not None}

    @property
    def by_time(self) -> bool:
        """Whether the times of events matter."""
        return self.forget is not None and not self.forget.keys().isdisjoint({"half_life_seconds", "window_seconds"})

    @property
    def windowed(self) -> bool:
        """Whether events leave the posterior altogether."""
        return self.forget is not None and not self.forget.keys().isdisjoint({"window_events", "window_seconds"})


def filled(options: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """Checked options, with the minibatch that a model is usually learned by."""
    usual = getattr(model, "usual_minibatch", None) or MINIBATCH
    return {**options, "minibatch": options["minibatch"] or usual}


def made(options: Mapping[str, Any]) -> Inference:
    """From options that `INFERENCE` has checked and that are `filled`."""
    step = options["step"]
    return Inference(**{**options, "step": None if step is None else StepSize(**step)})


def check_inference(kind: str, model: Model, inference: Inference) -> None:
    """Raises OptionsError where a model cannot be inferred so, or an option would mean nothing."""
    if inference.method not in model.methods:
        rule = f"must be {' or '.join(model.methods)} with the model {kind}"
        raise OptionsError("method", rule, inference.method)
    for name, methods in ONLY_WITH.items():
        value = getattr(inference, name)
        if value is not None and inference.method not in methods:
            rule = f"means nothing with the method {inference.method}, only with {' or '.join(methods)}: leave it out"
            if isinstance(value, StepSize):
                value = {key: number for key, number in asdict(value).items() if number is not None}
            raise OptionsError(name, rule, value)
    if inference.method == "memoized" and inference.linger_ms != 0:
        rule = "must be 0 with the method memoized, whose batches must be the same in every epoch: leave it out"
        raise OptionsError("linger_ms", rule, inference.linger_ms)
    step = inference.step
    if step is not None and step.constant is not None and (step.tau is not None or step.kappa is not None):
        rule = "means nothing where step has tau or kappa: set the one or the others"
        raise OptionsError("step.constant", rule, step.constant)
    if inference.local_iterations is not None and (isinstance(model, Filter) or not isinstance(model, Latent | Lda)):
        rule = f"means nothing with the model {kind}, whose minibatches need no passes: leave it out"
        raise OptionsError("local_iterations", rule, inference.local_iterations)
