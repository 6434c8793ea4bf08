"""All combiners by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from streaminfer.combining.methods import (
    average,
    gaussian,
    kde,
    normal,
    resampling,
    semiparametric,
    variational,
    weierstrass,
    weierstrass_importance,
    weierstrass_rejection,
)
from streaminfer.combining.part import Combiner, Refused

COMBINERS: Final[Mapping[str, Combiner]] = MappingProxyType(
    {
        "average": average.combine,
        "gaussian": gaussian.combine,
        "kde": kde.combine,
        "semiparametric": semiparametric.combine,
        "variational": variational.combine,
        "weierstrass": weierstrass.combine,
        "weierstrass_rejection": weierstrass_rejection.combine,
        "weierstrass_importance": weierstrass_importance.combine,
        "normal": normal.combine,
        "resampling": resampling.combine,
    }
)


def combiner(name: str) -> Combiner:
    """The combiner of a name; raises Refused if there is none."""
    if name not in COMBINERS:
        raise Refused(f"there is no combiner {name!r}: {', '.join(COMBINERS)}")
    return COMBINERS[name]
