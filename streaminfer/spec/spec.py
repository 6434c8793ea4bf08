"""A spec as typed values, its sections' options, and its fingerprint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from streaminfer.measuring.judging import settings as measuring
from streaminfer.models.events import Field
from streaminfer.models.lda.model import Lda
from streaminfer.models.model import AnyModel
from streaminfer.models.options import Text
from streaminfer.models.targets import target_of
from streaminfer.sampling.settings import Settings
from streaminfer.spec import meaning
from streaminfer.spec.avro_schema import derived, reduced
from streaminfer.spec.data import Data, located
from streaminfer.spec.key import Key
from streaminfer.spec.words import digest
from streaminfer.variational import methods
from streaminfer.variational.settings import Drift, Inference

NAME: Final = Text(r"[a-z][a-z0-9-]{0,39}", "a lower-case letter, then up to 39 letters, digits or hyphens")


@dataclass(frozen=True)
class Spec:
    """What is inferred: one posterior over one stream, or one for each key. `document` has every default filled in."""

    name: str
    data: Data
    model: AnyModel
    inference: Inference
    document: Mapping[str, Any]
    drift: Drift | None = None
    key: Key | None = None
    sampling: Settings | None = None
    """What a sampler is told; None: the method is variational."""
    monitor: measuring.Settings = field(default_factory=measuring.Settings)
    """What is measured; it means nothing for the posterior."""
    folder: Path = field(default=Path(), compare=False)
    """Where the files are that it names; it means nothing for the posterior."""

    @property
    def kind(self) -> str:
        """What the spec calls its model: a name of the table, or package.module:Class."""
        return str(self.document["model"]["kind"])

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """What the model reads, each with its place in an event; a target may ask more of it."""
        asked = self.model.fields if self.sampling is None else getattr(self.target, "fields", self.model.fields)
        return located(asked, self.data.fields, () if self.key is None else (self.key.field,))

    @property
    def shards(self) -> int:
        """Into how many parts the posterior is divided."""
        if self.words is not None:
            return self.words.shards
        return 1 if self.key is None else self.key.shards

    @cached_property
    def words(self) -> Lda | None:
        """The model, if its parameters are by words; else None."""
        return self.model if isinstance(self.model, Lda) else None

    @cached_property
    def target(self) -> Any:
        """What samplers draw from: the densities of the model on an unconstrained scale."""
        return target_of(self.model)

    @property
    def expires(self) -> bool:
        """Whether idle keys are dropped."""
        return self.key is not None and self.key.expire_after is not None

    @property
    def pooled(self) -> bool:
        """Whether there are keys, with a prior that is fitted to them."""
        return self.key is not None and self.key.pooled

    @property
    def waits_for_rest(self) -> bool:
        """Whether something is to be done once the data is at rest: further passes, or the last fit of a prior."""
        return self.pooled or self.inference.n_epochs > 1

    @property
    def times_matter(self) -> bool:
        """Whether the posterior depends on the times of events, or of their records."""
        return self.inference.by_time or self.expires

    @property
    def merges_minibatches(self) -> bool:
        """Whether a worker may make one increment of several minibatches, which then says the same as theirs.

        Drift is watched score by score, and a key expires by what is folded before: both need every minibatch.
        """
        exact = not self.model.needs_base and methods.method_of(self.inference).merges
        return exact and self.drift is None and not self.expires

    @cached_property
    def key_field(self) -> Field | None:
        """The place of an event's key; None if there is one posterior for all."""
        if self.key is None:
            return None
        path = self.data.fields.get(self.key.field)
        return Field(self.key.field, "key", path=() if path is None else tuple(path.split(".")))

    @cached_property
    def time_field(self) -> Field | None:
        """The place of an event's time; None if it does not matter, or is the record's."""
        if self.data.timestamp is None or not self.inference.by_time:
            return None
        return Field("timestamp", "time", path=tuple(self.data.timestamp.split(".")))

    @cached_property
    def event_fields(self) -> tuple[Field, ...]:
        """All that is read of an event: the model's fields, then the key and the time, if they are among them."""
        return (*self.fields, *(each for each in (self.key_field, self.time_field) if each is not None))

    @property
    def row_columns(self) -> int | None:
        """How many columns a row of the format rows has at least; None in a format of one event a record."""
        return len({field.path for field in self.event_fields}) if self.data.format == "rows" else None

    @cached_property
    def event_schema(self) -> str:
        """The Avro schema of events, if the format is avro."""
        return self.data.schema_text or derived(self.event_fields)

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits over all that changes what an increment means; travels in every message."""
        return meaning.fingerprint(self.meaning)

    @cached_property
    def meaning(self) -> Mapping[str, Any]:
        """All that changes what an increment means."""
        model = meaning.without_former(self.document["model"])
        if self.words is not None and self.words.vocabulary is not None:
            model = {**model, "vocabulary": digest(self.words.vocabulary)}
        said: dict[str, Any] = {
            "format": self.data.format,
            "model": model,
            "method": self.inference.method,
        }
        # Only if they say something: specs that do not have them keep the fingerprint they always had.
        if self.data.topic is not None:
            said["topic"] = self.data.topic
        paths = {field.name: list(field.path) for field in self.fields if field.is_elsewhere}
        if paths:
            said["fields"] = paths
        said |= methods.meaning(self.inference) if self.sampling is None else self._meaning_of_draws(self.sampling)
        if self.time_field is not None:
            said["timestamp"] = list(self.time_field.path)
        if self.key is not None and self.key_field is not None:
            said["key"] = {**asdict(self.key), "field": list(self.key_field.path)}
        if self.data.schema_text is not None:
            said["schema"] = reduced(self.data.schema_text, dated=self.time_field is not None)
        if self.data.schema_id is not None:
            said["schema_id"] = self.data.schema_id
        # A reaction changes the posterior, so all that decides on alarms does. One that is only told changes nothing.
        if self.drift is not None and self.drift.react is not None:
            said["drift"] = self.document["drift"]
        return said

    def _meaning_of_draws(self, sampling: Settings) -> dict[str, Any]:
        forget = self.inference.forget
        return {**({} if forget is None else {"forget": dict(forget)}), **sampling.meaning}
