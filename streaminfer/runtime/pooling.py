"""The prior of keys where it is fitted to them: it travels in manifests, so that everybody has the same."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from streaminfer.models.model import Conjugate, Model, conjugate
from streaminfer.models.options import OptionsError
from streaminfer.spec import Spec
from streaminfer.spec.key import MAX_PRIOR
from streaminfer.variational import keyed
from streaminfer.variational.arena import Arena
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.errors import BadValue

MAX_POOLED: Final = 1000
"""Keys that a pooled prior is fitted to."""
MAX_POOLED_NUMBERS: Final = 30_000
"""Statistics of them all: a fit of the slowest model takes 35 microseconds for each, and a master that is at it answers
nobody."""


def fitted(model: Model, arena: Arena, snapshot: Snapshot) -> Snapshot:
    """A snapshot whose prior is fitted to some of the keys, of which there is one at least."""
    rows = keyed.some(model, arena, max(2, min(MAX_POOLED, MAX_POOLED_NUMBERS // model.size)))
    prior = prior_of(conjugate(model).pooled(rows))
    return replace(snapshot, prior=prior, n_pooled=snapshot.n_events)


def prior_of(model: Conjugate) -> str:
    """The prior of a model as a manifest has it."""
    return json.dumps(dict(model.prior_options), sort_keys=True)


def model_of(spec: Spec, snapshot: Snapshot) -> Model:
    """The spec's model, with the prior of a snapshot where there is one; raises BadValue where that is none."""
    if snapshot.prior is None or spec.key is None or not spec.key.pooled:
        return spec.model
    try:
        if len(snapshot.prior) > MAX_PRIOR:
            raise ValueError(f"{len(snapshot.prior)} characters")
        prior = json.loads(snapshot.prior)
        if not isinstance(prior, dict):
            raise ValueError("it is no object")
        return conjugate(spec.model).with_prior(prior)
    except (ValueError, TypeError, KeyError, RecursionError, OptionsError) as error:
        raise BadValue(f"prior: must be the section of a spec: {error}"[:300]) from error
