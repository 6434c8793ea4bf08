"""What a spec may say of combining subposteriors, filled in and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streaminfer.models.options import Choice, Integer, Number, Option, OptionsError, Section
from streaminfer.models.targets.reading import DOCUMENTS, reading_of
from streaminfer.sampling.pooled.pooling import MOST_RETAINED
from streaminfer.sampling.settings import Combine

BY: Final = (
    "average",
    "gaussian",
    "kde",
    "semiparametric",
    "variational",
    "weierstrass",
    "weierstrass_rejection",
    "weierstrass_importance",
    "normal",
    "resampling",
)
KERNELS: Final = frozenset({"kde", "semiparametric", "weierstrass", "weierstrass_rejection", "weierstrass_importance"})
"""Those that have a bandwidth."""
WHOLE: Final = KERNELS | {"variational", "resampling"}
"""Those that need draws of every subposterior."""
ASKING: Final = {"variational": "gradient", "weierstrass": "log_likelihood"}
"""Those that ask the holders of data while they combine, and what of the model."""
COMBINE: Final = Section(
    (
        Option("by", Choice(BY), "The combiner.", "average"),
        Option(
            "weights",
            Choice(("full", "diagonal", "equal")),
            "Of an average: inverse covariances, inverse variances, or the same for all. Not set means full.",
            None,
        ),
        Option(
            "bandwidth",
            Number(above=0.0, maximum=1e6),
            "Of the kernels of kde, semiparametric and weierstrass, in posterior deviations. Not set means annealed or "
            "chosen from the draws.",
            None,
        ),
        Option(
            "correct",
            Choice(("importance", "none")),
            "Whether the exact density corrects the combination. Not set means importance; along a stream, none.",
            None,
        ),
        Option("draws", Integer(1, MOST_RETAINED), "How many draws a snapshot has.", MOST_RETAINED),
        Option(
            "window",
            Integer(100, 10**7),
            "Newest draws that are held of each subposterior. Not set means max(2000, 100 (d + 2)) for d numbers.",
            None,
        ),
        Option(
            "missing",
            Choice(("wait", "leave_out")),
            "What to do while a subposterior has too few draws: wait, or leave it and its events out.",
            "wait",
        ),
        Option("missing_seconds", Number(minimum=0.0, maximum=1e9), "How long to wait before leaving one out.", 60.0),
    )
)


def filled(options: Mapping[str, Any], target: Any, partitions: int | None) -> dict[str, Any]:
    """The options of a sampler with its number of subposteriors, and with how they are combined if there are several.

    Raises OptionsError.
    """
    given = options["combine"]
    count = options["subposteriors"] or (1 if given is None else _usual(partitions))
    found = {**options, "subposteriors": count}
    if count > 1 or given is not None:
        found["combine"] = _complete(given or COMBINE.check({}, "combine", []), options, target)
        _check(found["combine"], given or {}, found, target)
    return found


def made(options: Mapping[str, Any] | None) -> Combine | None:
    return None if options is None else Combine(**options)


def _usual(partitions: int | None) -> int:
    if partitions is None:
        rule = "must be set with combine and data.topic: the spec does not say how many partitions the topic has"
        raise OptionsError("subposteriors", rule, None)
    return partitions


def _complete(combine: Mapping[str, Any], options: Mapping[str, Any], target: Any) -> dict[str, Any]:
    found = dict(combine)
    if found["weights"] is None and found["by"] == "average":
        found["weights"] = "full"
    if found["correct"] is None:
        found["correct"] = "none" if options.get("source") == "stream" else "importance"
    if found["window"] is None:
        found["window"] = max(2000, 100 * (int(target.dimension) + 2))
    return found


def _check(combine: Mapping[str, Any], given: Mapping[str, Any], options: Mapping[str, Any], target: Any) -> None:
    by = combine["by"]
    if reading_of(target) is DOCUMENTS:
        rule = "must be 1 with the model lda: topics of different parts of the data have no common order; leave it out"
        raise OptionsError("subposteriors", rule, options["subposteriors"])
    if combine["weights"] is not None and by != "average":
        rule = f"means nothing with by: {by}, only with average: leave it out"
        raise OptionsError("combine.weights", rule, combine["weights"])
    if combine["bandwidth"] is not None and by not in KERNELS:
        rule = f"means nothing with by: {by}, only with {', '.join(sorted(KERNELS))}: leave it out"
        raise OptionsError("combine.bandwidth", rule, combine["bandwidth"])
    if by in ASKING and not hasattr(target, ASKING[by]):
        rule = f"needs {ASKING[by]}, which the model does not have: use another combiner"
        raise OptionsError("combine.by", rule, by)
    if combine["missing"] == "leave_out" and by in WHOLE:
        rule = f"must be wait with by: {by}, which needs draws of every subposterior: leave it out, or use average"
        raise OptionsError("combine.missing", rule, "leave_out")
    if options.get("source") == "stream" and (combine["correct"] == "importance" or by in ASKING):
        name, value = ("by", by) if by in ASKING else ("correct", "importance")
        rule = "needs the events again, and source: stream keeps none: use source: segment, or another one"
        raise OptionsError(f"combine.{name}", rule, value)
    least = 2000 if given.get("window") is None else 10 * (int(target.dimension) + 2)
    if combine["window"] < least:
        rule = f"must be {least} or more: the covariance of a draw of {target.dimension} numbers needs so many"
        raise OptionsError("combine.window", rule, combine["window"])
