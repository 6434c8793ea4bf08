"""What a table or a reader demands of a spec: its key, or a model of words."""

from __future__ import annotations

from streaminfer.models.lda.model import Lda
from streaminfer.spec import Spec
from streaminfer.spec.key import Key


def key_of(spec: Spec) -> Key:
    """What the posteriors of a spec are for each of; raises ValueError if there is one for all events."""
    if spec.key is None:
        raise ValueError(f"{spec.name}: its spec has no key, so there is one posterior for all events")
    return spec.key


def lda_of(spec: Spec) -> Lda:
    """The model, which is one of words; raises TypeError if it is not."""
    if spec.words is None:
        raise TypeError(f"{spec.kind} is not a model of words")
    return spec.words
