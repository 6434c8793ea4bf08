"""All combiners by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from streaminfer.combining.methods import average, gaussian, normal, resampling
from streaminfer.combining.part import Combiner, Refused

COMBINERS: Final[Mapping[str, Combiner]] = MappingProxyType(
    {
        "average": average.combine,
        "gaussian": gaussian.combine,
        "normal": normal.combine,
        "resampling": resampling.combine,
    }
)


def combiner(name: str) -> Combiner:
    """The combiner of a name; raises Refused if there is none."""
    if name not in COMBINERS:
        raise Refused(f"there is no combiner {name!r}: {', '.join(COMBINERS)}")
    return COMBINERS[name]
