"""The numbers of a posterior that are judged, by name, as linear functions of the unconstrained theta.

A number with a coordinate of its own, such as a variance by its log, has the same coverage on both scales. A number
that depends on several coordinates, such as a probability of a simplex or a covariance, is replaced by its tangent at
the posterior mean (the delta method). That is right if the posterior is narrow, so that the number hardly bends in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.whitening import Whitening
from streaminfer.models.did_you_mean import unknown_name
from streaminfer.models.model import Labels, Matrix
from streaminfer.models.targets.target import Target
from streaminfer.sampling import flat

FIRST: Final = 16
"""Numbers that are judged unless some are named."""
_STEP: Final = 1e-4
"""Of a difference quotient, in posterior deviations: its error is the square of that."""


class NoSuchNumber(ValueError):
    """A name that no number of the posterior has."""


class Functions(NamedTuple):
    """Names, and the gradient by theta of each at the posterior mean, (c, d)."""

    names: tuple[str, ...]
    rows: Matrix


def places(shapes: flat.Shapes, labels: Mapping[str, Labels], chosen: Sequence[str] = ()) -> dict[str, int]:
    """The chosen numbers, by name, and where they are in a draw; the first 16 if none is named."""
    if not chosen:
        return {name: i for i, name in enumerate(islice(flat.names(shapes, labels), FIRST))}
    known = {name: i for i, name in enumerate(flat.names(shapes, labels))}
    for name in chosen:
        if name not in known:
            raise NoSuchNumber(f"{name!r} {unknown_name(name, list(known)[:100], 'number of the posterior')}")
    return {name: known[name] for name in chosen}


def of(target: Target, labels: Mapping[str, Labels], place: Whitening, chosen: Sequence[str] = ()) -> Functions:
    """Gradients by central differences around the mean of `place`, in steps of its deviations."""
    found = places(target.shapes, labels, chosen)
    steps = _STEP * place.sd
    ahead, behind = (
        flat.flatten(target.constrain(place.mean + sign * np.diag(steps)), target.shapes)[:, list(found.values())]
        for sign in (1, -1)
    )
    rows = ((ahead - behind) / (2 * steps[:, None])).T
    if not np.isfinite(rows).all():
        raise Unknowable("The parameters are not finite near the mean of the posterior.")
    return Functions(tuple(found), rows)
