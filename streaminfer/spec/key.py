"""The section `key`: one posterior for each value of a field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from streaminfer.models.model import Model
from streaminfer.models.options import Choice, Integer, Number, Option, OptionsError, Problem, Section, Text

MAX_STATISTICS: Final = 100_000
"""Numbers of one key: with them its record in a snapshot still fits."""

MAX_MINIBATCH: Final = 100_000
MAX_ROWS_MINIBATCH: Final = 256
"""Of the format `rows`, in records."""

DEFAULTS: Final = ("prior", "pooled")

FIELD: Final = Text(r"[\s\S]{1,200}", "the name of a field, 1 to 200 characters")

KEY: Final = Section(
    (
        Option("field", FIELD, "The field whose values are the keys; data.fields may say where in an event it is."),
        Option("shards", Integer(1, 256), "Into how many parts the keys are divided; each has a master of its own.", 1),
        Option(
            "expire_after",
            Number(minimum=0.001, maximum=1e12),
            "A key without events for so many seconds, by the timestamps of records, is dropped. Not set means never.",
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


class NameOrSection:
    """`key: city` is short for `key: {field: city}`."""

    def check(self, value: object, field: str, problems: list[Problem]) -> dict[str, Any]:
        return KEY.check(value if isinstance(value, Mapping) else {"field": value}, field, problems)

    def json_schema(self) -> dict[str, Any]:
        return {"oneOf": [FIELD.json_schema(), KEY.json_schema()]}


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


def check_key(model: Model, minibatch: int, many: bool) -> None:
    """Raises OptionsError where there cannot be one posterior for each key; `many`: a record has many events."""
    most = MAX_ROWS_MINIBATCH if many else MAX_MINIBATCH
    if minibatch > most:
        rule = f"must be at most {most} with a key: all keys of a minibatch are in one snapshot"
        raise OptionsError("inference.minibatch", rule, minibatch)
    if model.needs_base:
        rule = f"cannot be set with {model.kind}: its increments depend on a posterior, and workers hold none of a key"
        raise OptionsError("key", rule, model.kind)
    if model.size > MAX_STATISTICS:
        rule = f"needs a model of at most {MAX_STATISTICS} statistics for each key: use fewer fields or categories"
        raise OptionsError("key", rule, model.size)
