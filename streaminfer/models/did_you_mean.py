"""What is said of an unknown name: the nearest known one, and all of them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def unknown_name(name: str, names: Sequence[str], what: str) -> str:
    """The rule an unknown name breaks, with the nearest right one if one is near."""
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"is not a known {what}; {guess}known: {', '.join(names)}"
