"""A snapshot as a user sees it: an object with moments, draws and predictions, and one JSON document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.checks import check
from streaminfer.models.events import Checked, Events, Field
from streaminfer.models.model import Moments, Posterior
from streaminfer.runtime import names
from streaminfer.runtime.api import prediction, sampling_document, topics_document
from streaminfer.runtime.api.frames import RowError, rows_of
from streaminfer.runtime.plurals import counted
from streaminfer.sampling.pooled.posterior import DrawsPosterior
from streaminfer.spec import Spec
from streaminfer.tables import draws
from streaminfer.tables.kinds import drawn_of, kind_of
from streaminfer.tables.sampled_topics import SampledTopics
from streaminfer.variational.lda.posterior import AnyTopics
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.snapshots import iso

SMALL: Final = 64
"""Covariances of vectors up to this length are in the JSON document."""


def events_of(fields: Sequence[Field], rows: Sequence[Mapping[str, Any]], first_row: int = 0) -> Events:
    """Rows (mappings, as events on the data topic are) as events; raises RowError at the first bad one.

    Numbers of numpy count as numbers, and times of Python, numpy and pandas as times. `first_row` is the number that
    the error gives the first of these rows.
    """
    checked = check(fields, [_python_values(row) for row in rows])
    _refuse(checked, first_row)
    return checked.events


def _refuse(checked: Checked, first_row: int) -> None:
    if checked.rejected:
        first = checked.rejected[0]
        raise RowError(f"row {first_row + first.row}: {first.reason}")


def _python_values(row: Any) -> Any:
    if isinstance(row, Mapping):
        return {name: _python_values(value) for name, value in row.items()}
    if isinstance(row, np.datetime64):
        row = row.astype("datetime64[us]")
    value = row.item() if isinstance(row, np.generic) else row.tolist() if isinstance(row, np.ndarray) else row
    return value.isoformat() if isinstance(value, datetime) else value


class PosteriorSnapshot:
    """The posterior at one version. `mean`, `sd` and `cov` are by parameter name; `topics` are those of lda."""

    def __init__(self, spec: Spec, snapshot: Snapshot, key: str | None = None, topics: AnyTopics | None = None) -> None:
        self.spec = spec
        self.snapshot = snapshot
        self.key = key
        self._topics = topics

    def __repr__(self) -> str:
        events = counted(self.n_events, "event")
        if self.topics is not None:
            return f"<{self.name} version {self.version}: {events}, {counted(len(self.topics.words), 'word')}>"
        means = ", ".join(f"{k}={np.array2string(v, precision=4, threshold=6)}" for k, v in self.mean.items())
        name = self.name if self.key is None else f"{self.name} of {self.key!r}"
        return f"<{name} version {self.version}: {events}, {means}>"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def n_events(self) -> int:
        return self.snapshot.n_events

    @property
    def n_effective(self) -> float:
        """The sum of the events' weights: less than `n_events` if old ones are forgotten."""
        return self.snapshot.n_effective

    @property
    def frontier(self) -> dict[str, int]:
        topic = names.data_topic(self.spec)
        positions = self.snapshot.frontier.positions
        return {f"{topic}-{index}": position for index, position in sorted(positions.items())}

    @property
    def drift(self) -> dict[str, float | None] | None:
        """Log evidence since the newest alarm, how many there were, and `n_events` then; None: drift is not watched."""
        found = self.snapshot.drift
        if found is None:
            return None
        alarm_at = found.alarm_at if found.n_alarms else None
        return {"log_evidence": found.log_evidence, "n_alarms": found.n_alarms, "alarm_at": alarm_at}

    @property
    def sampling(self) -> dict[str, Any] | None:
        """Which draws the posterior is made of, and what is under way; None if it is not made of draws."""
        found = self.snapshot.payload.sampled
        if found is None:
            return None
        warnings = draws.warnings(self.spec, self.snapshot)
        return {**sampling_document.of(found, self.spec), "warnings": warnings}

    @property
    def exactness(self) -> str:
        """`exact`, `bound`, `approximate` or `sampled`; `unreliable` if its draws are not to be trusted."""
        return kind_of(self.spec).exactness(self.spec, self.snapshot)

    @cached_property
    def topics(self) -> AnyTopics | None:
        """The topics of lda; None of other models. Those of increments need all words, which are not in a snapshot."""
        if self._topics is not None or self.snapshot.payload.sampled is None:
            return self._topics
        topics = drawn_of(self.spec).topics
        return None if topics is None else topics(self.spec, self.snapshot)

    @property
    def vocabulary(self) -> list[str]:
        """The words of topics in the order of their bytes, as the columns of `topics` are."""
        return [] if self.topics is None else self.topics.vocabulary

    @cached_property
    def posterior(self) -> Posterior | AnyTopics:
        if self.topics is not None:
            return self.topics
        return kind_of(self.spec).posterior(self.spec, self.snapshot)

    @cached_property
    def moments(self) -> dict[str, Moments]:
        return self.posterior.moments()

    @property
    def mean(self) -> dict[str, NDArray[np.float64]]:
        return {name: moment.mean for name, moment in self.moments.items()}

    @property
    def sd(self) -> dict[str, NDArray[np.float64]]:
        return {name: moment.sd for name, moment in self.moments.items()}

    @property
    def cov(self) -> dict[str, NDArray[np.float64]]:
        """Covariances of the vector parameters."""
        return {name: moment.cov for name, moment in self.moments.items() if moment.cov is not None}

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        """n joint draws of the parameters, the first axis is the draw."""
        return self.posterior.sample(rng, n)

    def log_predictive(self, rows: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
        """log p(event | all events absorbed): a number for one row, an array for several.

        Of a document: log p(one half of its words | the other), which is which by coins of the model's seed.
        """
        events = events_of(self.spec.fields, [rows] if isinstance(rows, Mapping) else rows)
        if isinstance(self.posterior, AnyTopics):
            found = self.posterior.log_predictive(events.bagged)
        else:
            found = self.posterior.log_predictive(events.numbers)
        return float(found[0]) if isinstance(rows, Mapping) else found

    def predict(self, rows: Any, interval: float = 0.95) -> dict[str, Any]:
        """What new events will be, by name: numbers for one row (a mapping), arrays for several or a data frame.

        Rows need the model's inputs only: not the target, and for some models nothing at all. `lower` and `upper`, if
        the model has them, hold `interval` of the probability. Raises RowError, or CannotPredict.
        """
        one, inputs = isinstance(rows, Mapping), prediction.inputs_of(self.spec)
        several = [rows] if one else list(rows_of(inputs, rows))
        found = prediction.predicted(self.posterior, events_of(inputs, several), interval)
        return {name: prediction.first(values) if one else values for name, values in found.items()}

    def log_evidence(self) -> float:
        """log p(all events absorbed), the marginal likelihood; with forgetting each density to its weight's power.

        By the chain rule it is the sum of log p(event | all events before it) under the prior as it is now.
        """
        return self.posterior.log_evidence()

    def to_inference_data(self, rng: np.random.Generator | None = None, draws: int = 1000) -> Any:
        """Draws as an ArviZ InferenceData (a DataTree); needs the extra `arviz`.

        A sampled posterior has the chains and draws that it was made of, any other one chain of `draws` draws.
        """
        try:
            from arviz_base import from_dict
        except ImportError as error:
            raise ImportError(
                "to_inference_data needs ArviZ: pip install arviz-base, or '.[arviz]' in a clone of streaminfer"
            ) from error
        if isinstance(self.posterior, DrawsPosterior | SampledTopics):
            return from_dict({"posterior": self.posterior.chains()})
        sample = self.sample(rng or np.random.default_rng(0), draws)
        return from_dict({"posterior": {name: values[None] for name, values in sample.items()}})

    @property
    def epoch(self) -> int:
        """Which pass over the data it is of, from 0."""
        return self.snapshot.frontier.epoch

    @property
    def score(self) -> float | None:
        """The mean log predictive density of the events, each under the posterior before its minibatch.

        None without events. None with keys: a master has no events, and a worker no posterior of keys. For a document
        it is that of one half of its words given the other. `log_evidence` is another thing: there each event is
        predicted by all before it, those of its minibatch too, and by the prior as it is now.
        """
        n_scored = kind_of(self.spec).n_scored(self.snapshot)
        return self.snapshot.counts.score / n_scored if n_scored else None

    def _numbers(self) -> dict[str, Any]:
        """Parameters and natural parameters, and which draws they are of."""
        sampling = {} if self.sampling is None else {"sampling": self.sampling}
        if self.topics is not None:
            return {
                "parameters": topics_document.parameters(self.topics),
                "natural": topics_document.natural(self.topics),
                "truncated": topics_document.truncated(self.topics),
                **sampling,
            }
        return {
            "parameters": {name: _moments_json(moments) for name, moments in self.moments.items()},
            "natural": plain(self.posterior.natural) if len(self.posterior.natural) else None,
            **sampling,
        }

    def to_json(self) -> dict[str, Any]:
        """The document that `snapshot --json` prints; a moment that does not exist is null."""
        return {
            **self._which(),
            "family": self.posterior.family,
            **self._numbers(),
            "log_evidence": plain(np.float64(self.log_evidence())),
            **self._where(),
        }

    def about(self) -> dict[str, Any]:
        """The same without what takes a posterior: of a keyed one, what all keys have in common."""
        return {**self._which(), "n_keys": self.snapshot.counts.n_keys, **self._where()}

    def _which(self) -> dict[str, Any]:
        """Which posterior it is, of how many events, and how exact."""
        snapshot, counts = self.snapshot, self.snapshot.counts
        return {
            "name": self.name,
            "key": self.key,
            "version": snapshot.version,
            "n_events": snapshot.n_events,
            "n_effective": snapshot.n_effective,
            "n_lost": counts.n_lost,
            "n_dead_lettered": counts.n_dead_lettered,
            "n_damped": counts.n_damped,
            "n_rejected": counts.n_rejected,
            "n_unconverged": counts.n_unconverged,
            "n_dropped": counts.n_dropped,
            "staleness": counts.staleness,
            "exactness": self.exactness,
            "method": self.spec.inference.method,
            "model": self.spec.kind,
        }

    def _where(self) -> dict[str, Any]:
        """How well it predicted, and up to which events it goes."""
        snapshot = self.snapshot
        return {
            "score": self.score,
            "drift": self.drift,
            "epoch": snapshot.frontier.epoch,
            "frontier": self.frontier,
            "read_to": snapshot.read_to,
            "fingerprint": snapshot.fingerprint,
            "created_at": iso(snapshot.created_at),
        }


def _moments_json(moments: Moments) -> dict[str, Any]:
    document = {"mean": plain(moments.mean), "sd": plain(moments.sd)}
    if moments.cov is not None and len(moments.cov) <= SMALL:
        document["cov"] = plain(moments.cov)
    return document


def plain(value: NDArray[np.float64] | np.float64) -> Any:
    """Numbers and nested lists; what is not finite becomes None, as JSON has no other word for it."""
    plain = value.tolist()
    return _without_nan(plain)


def _without_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return value if math.isfinite(value) else None
