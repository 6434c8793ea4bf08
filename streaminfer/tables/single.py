"""One posterior of all events: there are no rows, and everything is in the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from streaminfer.models.model import with_posterior
from streaminfer.spec import Spec
from streaminfer.tables import passes
from streaminfer.tables.kept import keeping_of
from streaminfer.tables.table import Described
from streaminfer.variational import fold
from streaminfer.variational.arena import Arena
from streaminfer.variational.drift.reaction import rule_of
from streaminfer.variational.increment import Increment, Layout
from streaminfer.variational.methods import method_of
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot


class Single:
    """See `table.Table`."""

    row_size: Final = 0

    def __init__(self, spec: Spec) -> None:
        self._spec, self._forgetting = spec, rule_of(spec.inference, spec.drift)
        self._model, self._method = with_posterior(spec.model), method_of(spec.inference)
        self.rows = Arena(0)
        self.layout = Layout(self._model.size, spec.inference.by_time, spec.inference.windowed)
        self.keeping = keeping_of(self._model, spec.inference)
        self.snapshot = self.start()

    def start(self) -> Snapshot:
        return fold.start(self._model, self._spec.fingerprint)

    def clear(self) -> None:
        self.rows = Arena(0)

    def missing(self, snapshot: Snapshot) -> str | None:
        n_keys = snapshot.counts.n_keys
        return None if n_keys == 0 else f"{n_keys} keys, and the spec has no key"

    def may_hide(self, label: bytes) -> bool:
        return False

    def take_back(self, label: bytes, clock: int, count: float | None) -> bool:
        return False

    def taken_back(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def fold(self, increment: Increment, fresh_from: int, base_events: int) -> Outcome:
        spec = self._spec
        self.snapshot, outcome = fold.add(
            self._model, self.snapshot, increment, fresh_from, self._forgetting, spec.drift, spec.inference, base_events
        )
        return outcome

    def fold_all(self, increments: Sequence[Increment]) -> list[Outcome] | None:
        if not self._spec.merges_minibatches:
            return None
        found = fold.add_all(self._model, self.snapshot, increments, self._forgetting, self._spec.inference)
        if found is None:
            return None
        self.snapshot, outcomes = found
        return outcomes

    def settle(self, before: Snapshot, ends: Callable[[], Mapping[int, int]]) -> None:
        """Nothing."""

    @property
    def full(self) -> bool:
        return False

    @property
    def restless(self) -> bool:
        return passes.unfixed(self._spec.inference, self.snapshot)

    def rest(self, ends: Mapping[int, int]) -> str:
        self.snapshot, said = passes.fixed(self.snapshot, ends)
        return said

    def turn(self) -> bool:
        before, self.snapshot = self.snapshot, passes.turned(self._spec.inference, self.snapshot)
        return self.snapshot is not before

    def published(self) -> None:
        """Nothing."""

    @property
    def n_effective(self) -> float:
        return self.snapshot.n_effective

    def described(self, snapshot: Snapshot) -> Described:
        spec, model = self._spec, self._model
        posterior = model.posterior(self._method.published(model, spec.inference, snapshot))
        return Described(spec.kind, posterior.family, model.exactness, posterior.natural)
