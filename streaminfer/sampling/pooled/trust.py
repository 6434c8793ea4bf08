"""Whether draws can be trusted: chains that stand still, or disagree, say little of the posterior."""

from __future__ import annotations

from typing import Final

from streaminfer.sampling.pooled.shown import Shown

HARDLY: Final = 0.01
"""Below this part of proposals a chain stands still."""
LEAST_OF_A_CHAIN: Final = 10
"""Effective draws for each chain below which nothing is known, not even how many there are (Gelman et al. 2013)."""


def faults(shown: Shown, chains: int) -> list[str]:
    """Why the draws that are shown, of so many `chains`, are not to be trusted; empty if nothing is known against them.

    A combination says by itself how far it is to be trusted.
    """
    if not shown.n_draws or shown.combined is not None:
        return []
    found = []
    if shown.acceptance is not None and shown.acceptance < HARDLY:
        how = "none" if shown.acceptance == 0 else f"{100 * shown.acceptance:.2g}%"
        found.append(
            f"{how} of the proposals were accepted, so these draws are not of the posterior: make inference.step "
            "smaller"
        )
    least = LEAST_OF_A_CHAIN * chains
    if shown.n_effective_draws < least:
        found.append(
            f"{shown.n_draws} draws are worth {shown.n_effective_draws:.2g} independent ones, and fewer than {least} "
            "say little of the posterior: raise inference.draws or inference.thin"
        )
    return found
