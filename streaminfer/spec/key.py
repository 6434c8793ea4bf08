"""The section `key`: one posterior for each value of a field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from streaminfer.models.keys import MAX_BYTES, WHOLE_NUMBER
from streaminfer.models.model import AnyModel, Conjugate, DomainError
from streaminfer.models.options import Choice, Integer, Number, Option, OptionsError, Section, Short, Text

RECORD: Final = 1 << 20
"""Bytes of the largest record."""
MAX_PRIOR: Final = 1 << 18
"""Characters of a prior that is fitted to the keys, as a manifest has it."""
MAX_STATISTICS: Final = (RECORD - MAX_PRIOR - (64 << 10)) // 16
"""Numbers of one key. A shard's manifest is then one record: as many statistics, no more natural parameters, 8 bytes
each, a fitted prior and 64 kB for the rest."""

MAX_COLUMNS: Final = 64 << 20
"""Bytes that an increment has of all its keys."""
MAX_MINIBATCH: Final = 100_000
MAX_ROWS_MINIBATCH: Final = 256
"""The same for the format `rows`, in records."""

DEFAULTS: Final = ("prior", "pooled")

FIELD: Final = Text(r"[\s\S]{1,200}", "the name of a field, 1 to 200 characters")

KEY: Final = Section(
    (
        Option("field", FIELD, "The field whose values are the keys; data.fields may say where in an event it is."),
        Option("shards", Integer(1, 256), "Into how many parts the keys are divided; each has a master of its own.", 1),
        Option(
            "expire_after",
            Number(minimum=0.001, maximum=1e12),
            "A key without events for this many seconds, by the timestamps of records, is dropped. Not set "
            "means never.",
            None,
        ),
        Option(
            "default",
            Choice(DEFAULTS),
            "What a key starts from: the model's prior, or pooled, one that is fitted to the other keys.",
            "prior",
        ),
    )
)
KEY_OR_FIELD: Final = Short(KEY)
"""`key: city` is short for `key: {field: city}`."""


@dataclass(frozen=True, slots=True)
class Key:
    """Which field has the keys, how they are divided among masters, when an idle one goes, and how a new one starts."""

    field: str
    shards: int = 1
    expire_after: float | None = None
    default: str = "prior"

    @property
    def pooled(self) -> bool:
        """Whether the prior of keys is fitted to them."""
        return self.default == "pooled"


def prior_text(model: Conjugate) -> str:
    """The prior of a model as a manifest has it."""
    return json.dumps(dict(model.prior_options), sort_keys=True)


def prior_from(model: Conjugate, text: str) -> Conjugate:
    """The model with the prior of a manifest; raises DomainError if that is not the section of a spec."""
    try:
        if len(text) > MAX_PRIOR:
            raise ValueError(f"{len(text)} characters")
        prior = json.loads(text)
        if not isinstance(prior, dict):
            raise ValueError("it is not an object")
        return model.with_prior(prior)
    except (ValueError, TypeError, KeyError, RecursionError, OptionsError) as error:
        raise DomainError(f"prior: must be the section of a spec: {error}"[:300]) from error


def column_bytes(size: int, label: int) -> int:
    """What an increment has of a key: the label and its length, five numbers at most, and the statistics."""
    return 2 + label + 8 * (5 + size)


def tape_bytes(size: int, columns: int) -> int:
    """Bytes of records of `rows` after which a minibatch is cut: then all may be of different keys.

    A row of N columns of 8 bytes becomes a key's part of an increment; the record that fills a minibatch is in
    it, so one is left free. Below 1 even that one does not fit.
    """
    return MAX_COLUMNS * 8 * columns // column_bytes(size, WHOLE_NUMBER) - RECORD


def check_key(kind: str, model: AnyModel, minibatch: int, columns: int | None, field: str) -> None:
    """Raises OptionsError if there cannot be one posterior for each value of a field.

    `columns`: how many a row has if a record has many events; None if it has one.
    """
    if model.needs_base:
        rule = (
            f"cannot be set with {kind}: its increments depend on a posterior, and workers hold no posterior of a key; "
            "leave it out, or use a spec and a topic for each key"
        )
        raise OptionsError("key", rule, field)
    if model.size > MAX_STATISTICS:
        rule = f"needs a model of at most {MAX_STATISTICS} statistics for each key: use fewer fields or categories"
        raise OptionsError("key", rule, model.size)
    if columns is not None and tape_bytes(model.size, columns) < 1:
        rule = f"cannot be rows with a key and {model.size} statistics for each: use json or avro, or fewer fields"
        raise OptionsError("data.format", rule, "rows")
    most = (
        min(MAX_MINIBATCH, MAX_COLUMNS // column_bytes(model.size, MAX_BYTES))
        if columns is None
        else MAX_ROWS_MINIBATCH
    )
    if minibatch > most:
        rule = f"must be at most {most} with a key: all keys of a minibatch are in one snapshot"
        raise OptionsError("inference.minibatch", rule, minibatch)
