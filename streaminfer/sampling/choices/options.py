"""What a spec's section `inference` may say of a sampler: the options of each method.

A default of None is filled in by `defaults`, once the target of the model is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streaminfer.models.options import Choice, Either, Flag, Integer, Number, OneKey, Option, Section, Short
from streaminfer.sampling.choices.combine import COMBINE
from streaminfer.sampling.kernels.poisson_mh import CHI
from streaminfer.sampling.subsets.rules import RULES

MINIBATCH: Final = 256
"""Events of a gradient if the spec does not say how many."""
LARGEST: Final = 1 << 26
"""Numbers that all chains of a subposterior draw in a segment: half a gigabyte."""

STEP: Final = Section(
    (
        Option(
            "bias",
            Number(minimum=1e-6, maximum=1.0),
            "How wrong a variance may be, as a part of it; the size of steps follows from the noise of gradients.",
            None,
        ),
        Option(
            "size",
            Number(minimum=1e-12, maximum=1e6),
            "The size of the first step. Stochastic gradients divide it by the number of events, unless precondition "
            "is mode.",
            None,
        ),
        Option(
            "after",
            Number(minimum=1e-3, maximum=1e15),
            "Step t has size (1 + t / after)^-power, but at least floor; not set means 1.",
            None,
        ),
        Option("power", Number(minimum=0.0, maximum=1.0), "How fast steps become smaller; not set means 0.", None),
        Option(
            "floor",
            Number(minimum=0.0, maximum=1e6),
            "The least size of a step, divided as size is; not set means 0.",
            None,
        ),
        Option(
            "accept",
            Number(minimum=0.01, maximum=0.99),
            "The part of proposals that should be accepted, by methods that refuse some; the size of steps is learned.",
            None,
        ),
    )
)
SEGMENT: Final = OneKey(
    (
        Option("growth", Number(minimum=1.001, maximum=1e6), "The next segment has this many times the events."),
        Option("events", Integer(1, 10**15), "The next segment has this many more events."),
        Option("seconds", Number(minimum=0.001, maximum=1e9), "The next segment begins this much later."),
    )
)

_SHARED: Final = (
    Option("seed", Integer(0, 2**63 - 1), "Of all random numbers of a sampler.", 0),
    Option("chains", Integer(1, 64), "How many chains each subposterior has.", 4),
    Option(
        "draws",
        Integer(1, 10**9),
        "How many draws a chain makes in a segment; then it waits. Not set means 1000, of topics 10 to 100: fewer if "
        "there are many words and topics.",
        None,
    ),
    Option(
        "thin",
        Integer(1, 10**9),
        "Steps from one draw to the next. Not set means max(10, 1 / step) for stochastic gradients, as many as there "
        "are dimensions for random walks (mh, subsampled_mh, poisson_mh, flymc), else 1.",
        None,
    ),
    Option(
        "warmup",
        Integer(0, 10**15),
        "Steps before the first draw. Not set means as many as those of all draws, and half of that after the first "
        "segment.",
        None,
    ),
    Option("segment", SEGMENT, "When chains go on with more events.", {"growth": 1.5}),
    Option(
        "subposteriors",
        Integer(1, 1024),
        "Into how many parts the partitions are divided, with chains for each part of the data. Not set means 1, with "
        "combine as many as there are partitions.",
        None,
    ),
    Option("combine", Short(COMBINE), "How the draws of several subposteriors become one posterior.", None),
    Option(
        "start",
        Choice(("mode", "prior")),
        "Where chains start: two deviations around the mode, or at a draw from the prior. Not set means mode if the "
        "model has gradients and events are of a segment.",
        None,
    ),
)
_STEP: Final = Option(
    "step",
    STEP,
    "The sizes of steps of a sampler. Not set means {accept: 0.234} for random walks, {accept: 0.574} along gradients, "
    "{bias: 0.05} if precondition is mode, else a size of the method's own.",
    None,
)
_ADAPT: Final = Option(
    "adapt",
    Choice(("warmup", "always", "never")),
    "When methods that refuse proposals learn the size of steps, and random walks their directions if they are not "
    "known. Not set means warmup, or never if step has a size.",
    None,
)
_SCAN: Final = Option(
    "scan",
    Choice(("systematic", "random")),
    "The order in which gibbs draws blocks of parameters: always the same, or drawn anew each time.",
    "systematic",
)
_MINIBATCHES: Final = (
    Option("minibatch", Integer(1, 1_000_000), "Events of a gradient of a sampler.", MINIBATCH),
    Option(
        "batches",
        Choice(("random", "shuffled")),
        "How the events of a gradient are chosen: independently, with replacement, or by turns from all in a random "
        "order. Not set means random.",
        None,
    ),
)
_FLAG_OR_ORDER: Final = Either((Flag(), Integer(0, 2)))
"""Of gradients a flag, of decisions on subsets an order; `checks` knows which method has which."""
_GRADIENTS: Final = (
    *_MINIBATCHES,
    Option(
        "source",
        Choice(("segment", "stream")),
        "Where the events of a gradient are from: all events of a segment, or those that arrive, in their order, which "
        "are then forgotten.",
        "segment",
    ),
    Option(
        "population",
        Integer(1, 10**15),
        "With source: stream, how many events the posterior stands for; not set means as many as were seen so far.",
        None,
    ),
    Option(
        "precondition",
        Choice(("mode", "rms", "none")),
        "What makes steps as long in every direction: second derivatives at the mode, or the size of gradients so far. "
        "Not set means mode if the model has second derivatives, else rms.",
        None,
    ),
    Option(
        "control_variates",
        _FLAG_OR_ORDER,
        "Whether gradients are estimated by their differences from those at the mode. Not set means true if the model "
        "has second derivatives.",
        None,
    ),
)
_PRECONDITION: Final = Option(
    "precondition", Choice(("mode", "none")), "mala learns nothing of directions: not set means mode, else none.", None
)
_FRICTION: Final = Option(
    "friction", Number(minimum=1e-6, maximum=1e6), "How fast velocities of sghmc and sgnht are forgotten.", 1.0
)
_NOISE: Final = Option(
    "noise",
    Number(minimum=0.0, maximum=1e6),
    "What sghmc takes the noise of gradients to be, and so leaves out of its own.",
    0.0,
)
_TRANSITION: Final = Option(
    "transition",
    Choice(("cir", "euler")),
    "The steps of sgrld: exact transitions of the process with counts fixed for a step, or Euler's.",
    # Euler's steps are far off in a cell whose prior and count are together below 1, however short they are: its
    # density has a pole at 0. Sparse cells are what sgrld is for.
    "cir",
)
_RULE: Final = Option(
    "rule",
    Choice(RULES),
    "When a decision has read enough events: by Student's t, or by a bound that always holds. Not set means "
    "bernstein_serfling if the model has bounds of its derivatives, else t.",
    None,
)
_ERROR: Final = Option(
    "error",
    Number(above=0.0, maximum=0.5),
    "The chance of a wrong decision: of t at each look, as if means were normal; of the others in all, whatever the "
    "data.",
    0.01,
)
_GROWTH: Final = Option(
    "growth",
    Number(minimum=1.0, maximum=1e6),
    "How many times as many events are known after each further look; 1: a minibatch more.",
    2.0,
)
_ORDER: Final = Option(
    "order",
    Integer(0, 2),
    "Of the expansion at the mode that decisions know without events; 0: none. Not set means 2 if events are margins "
    "with bounded derivatives, else 0.",
    None,
)
_TEST: Final = Option("test", Section((_RULE, _ERROR, _GROWTH)), "How subsampled_mh decides.", {})
_CORRECT: Final = Option(
    "correct",
    Section((_RULE, _ERROR, _GROWTH, _ORDER)),
    "How steps of sgld are accepted by a Metropolis test on subsets of the events. Not set: all steps are.",
    None,
)
_CHI: Final = Option(
    "chi",
    Number(minimum=1e-6, maximum=1e3),
    "How many more events poisson_mh reads to make its decisions less noisy.",
    CHI,
)
_EXPANSION: Final = Option(
    "control_variates",
    _FLAG_OR_ORDER,
    "Of subsampled_mh and poisson_mh, the order of the expansion at the mode that they know without events; 0: none. "
    "Not set means 2 if events are margins with bounded derivatives, else 0.",
    None,
)
_FIRST: Final = Option(
    "minibatch", Integer(1, 1_000_000), "Events that a test of subsampled_mh reads first.", MINIBATCH
)

_PROPOSAL: Final = Option(
    "proposal",
    Choice(("random_walk", "langevin")),
    "How flymc proposes its next place: a random walk, or a step along the gradient.",
    "random_walk",
)
_BOUND: Final = Option(
    "bound",
    Section(
        (
            Option(
                "tune",
                Choice(("mode", "none")),
                "Where the lower bounds touch the likelihood: at the mode, which leaves few events bright, or all at "
                "the same margin, which needs no mode. Not set means mode if the model has gradients, else none.",
                None,
            ),
            Option("at", Number(minimum=0.0, maximum=1e3), "That margin, if tune is none; not set means 1.5.", None),
            Option(
                "update",
                Choice(("implicit", "explicit")),
                "How brightness changes: dark events are offered their light, or a part of all events is drawn anew.",
                "implicit",
            ),
            Option(
                "fraction",
                Number(minimum=1e-9, maximum=1.0),
                "The part of the events that a step looks at. Not set means as the number of bright events suggests.",
                None,
            ),
        )
    ),
    "The lower bounds of flymc, and how it changes which events are bright.",
    {},
)

OPTIONS: Final[Mapping[str, tuple[Option, ...]]] = {
    "mh": (*_SHARED, _STEP, _ADAPT),
    "mala": (*_SHARED, _STEP, _PRECONDITION, _ADAPT),
    "gibbs": (*_SHARED, _SCAN),
    "sgld": (*_SHARED, *_GRADIENTS, _STEP, _CORRECT),
    "sghmc": (*_SHARED, *_GRADIENTS, _STEP, _FRICTION, _NOISE),
    "sgnht": (*_SHARED, *_GRADIENTS, _STEP, _FRICTION),
    "sgrld": (*_SHARED, *_MINIBATCHES, _STEP, _TRANSITION),
    "subsampled_mh": (*_SHARED, _FIRST, _STEP, _ADAPT, _EXPANSION, _TEST),
    "poisson_mh": (*_SHARED, _STEP, _ADAPT, _EXPANSION, _CHI),
    "flymc": (*_SHARED, _STEP, _ADAPT, _PROPOSAL, _BOUND),
}
"""By method."""
STEP_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "mh": ("accept", "size"),
    "mala": ("accept", "size"),
    "subsampled_mh": ("accept", "size"),
    "poisson_mh": ("accept", "size"),
    "flymc": ("accept", "size"),
    **dict.fromkeys(("sgld", "sghmc", "sgnht"), ("bias", "size", "after", "power", "floor")),
    "sgrld": ("size", "after", "power", "floor"),
}
"""What `step` may have, by method."""
