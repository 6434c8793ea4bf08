"""What all checks of one version share: its draws, its events, and the scores of what it should be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Bus
from streaminfer.measuring.densities import LogDensity, density_of
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.scores import AllEvents, Anchored, Score, Segment
from streaminfer.models.model import Matrix, Posterior, Vector, with_posterior
from streaminfer.models.targets import target_of
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.target import Differentiable
from streaminfer.runtime import names
from streaminfer.runtime.monitoring.measuring import contained, gathering
from streaminfer.runtime.monitoring.measuring.contained import Contained, Weighing
from streaminfer.runtime.monitoring.measuring.gathering import Gathered, Miscounted
from streaminfer.runtime.monitoring.measuring.limits import MOST_EVENTS
from streaminfer.spec import Spec
from streaminfer.tables.draws import posterior_of
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas

_REMOVED: Final = "Retention has removed events of the posterior from the log."
_KEEP: Final = "Keep events for longer."


@dataclass(frozen=True, eq=False)
class Evidence:
    """Events that a posterior is judged by, and the snapshot that has those before them; None: there are none."""

    target: str
    """`all`, `anchored` or `segment`."""
    base: Snapshot | None
    gathered: Gathered
    weighing: Weighing

    @property
    def base_version(self) -> int:
        return 0 if self.base is None else self.base.version


class Context:
    """Everything is made when it is first asked for, and only once."""

    def __init__(
        self, spec: Spec, bus: Bus, schemas: Schemas, snapshot: Snapshot, older: tuple[Snapshot, ...] = ()
    ) -> None:
        self.spec, self.bus, self.schemas, self.snapshot, self.older = spec, bus, schemas, snapshot, older

    @property
    def seed(self) -> int:
        """The same for everybody who measures this version."""
        known = f"{self.spec.fingerprint} {self.snapshot.version}".encode()
        return int.from_bytes(blake2b(known, digest_size=7).digest())

    def rng(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *purpose.encode()])

    @cached_property
    def posterior(self) -> Posterior:
        return kind_of(self.spec).posterior(self.spec, self.snapshot)

    def posterior_at(self, snapshot: Snapshot) -> Posterior:
        """That of an older snapshot."""
        return kind_of(self.spec).posterior(self.spec, snapshot)

    @cached_property
    def target(self) -> Any:
        """The densities of the model; raises Unknowable if it has none with gradients."""
        try:
            found = target_of(self.spec.model)
        except TypeError as error:
            raise Unknowable(f"The model has no density: {error}.") from error
        if not isinstance(found, Differentiable):
            raise Unknowable("The density of the model has no gradient.", "Write it with jax.numpy, or add `gradient`.")
        return found

    @cached_property
    def parameters(self) -> dict[str, NDArray[np.float64]]:
        """Draws of the parameters: those that a sampled posterior retains, else `monitor.draws` of them."""
        if self.spec.sampling is not None:
            return posterior_of(self.spec, self.snapshot).parameters
        return self.posterior.sample(self.rng("draws"), self.spec.monitor.draws)

    @cached_property
    def theta(self) -> Matrix:
        """The same draws on the unconstrained scale, (n, d)."""
        theta = np.asarray(self.target.unconstrain(self.parameters), dtype=np.float64)
        if not np.isfinite(theta).all():
            raise Unknowable("Draws of the posterior are not finite on the unconstrained scale.")
        return theta

    def theta_at(self, snapshot: Snapshot) -> Matrix:
        """Draws of an older snapshot, (n, d)."""
        drawn = self.posterior_at(snapshot).sample(self.rng("older"), self.spec.monitor.draws)
        return np.asarray(self.target.unconstrain(drawn), dtype=np.float64)

    def events_since(self, base: Snapshot, most: int) -> Matrix:
        """Some of the events since an older snapshot, (m, fields), or all; raises Unknowable."""
        found = contained.since(self.spec, self.snapshot, base)
        self._check_size(found)
        weighing = contained.Weighing(None)
        parts = gathering.read(self.spec, self.bus, self.schemas, found, weighing)
        return gathering.gather(self.spec.model, self.target, parts, weighing, most).events

    @property
    def anchor(self) -> Vector:
        """Where the gradient of all events is taken: in the middle of the draws."""
        return np.asarray(self.theta.mean(axis=0), dtype=np.float64)

    @property
    def evidence(self) -> Evidence:
        """All events, or those since an older snapshot if the log does not have all, or has too many."""
        if isinstance(self._looked_for, Unknowable):
            raise self._looked_for
        return self._looked_for

    @cached_property
    def _looked_for(self) -> Evidence | Unknowable:
        """Once for all checks, also if there is none: to look for it is to read the log."""
        try:
            return self._all()
        except Unknowable as error:
            why = error
        for base in self.older:
            try:
                return self._since(base)
            except Unknowable as error:
                why = error
        return why

    @cached_property
    def audited(self) -> Evidence:
        """The same for an audit; raises Miscounted if the log has other events than the posterior should have.

        From its start on a log may have fewer because retention has removed some, unless nothing was removed.
        """
        whole = not any(self.bus.starts(names.data_topic(self.spec)).values())
        try:
            return self.evidence if self.evidence.base is None else self._all()
        except Miscounted:
            if whole:
                raise
        except Unknowable as error:
            if not self.older:
                raise error
        for base in self.older[:-1]:
            try:
                return self._since(base)
            except Miscounted:
                raise
            except Unknowable:
                continue
        return self._since(self.older[-1])

    @cached_property
    def score(self) -> Score:
        """That of what the posterior should be."""
        evidence = self.evidence
        gathered = evidence.gathered
        if evidence.base is not None:
            model = with_posterior(self.spec.model)
            before = model.posterior(evidence.weighing.aged(model, evidence.base))
            known = density_of(before, self.target).density
            if known is None:
                raise Unknowable("The density of older posteriors of this model is not known.", _KEEP)
            return Segment(known, self._density)
        if gathered.whole:
            return AllEvents(self._density)
        return _anchored(self.target, self.anchor, gathered, self._times)

    @cached_property
    def density(self) -> Density:
        """What the posterior should be, if all events are held; raises Unknowable if they are not."""
        if not self.evidence.gathered.whole:
            raise Unknowable("The log has more events than are held.", "Raise monitor.events.")
        score = self.score
        return (
            replace(self._density, target=_Continued(self.target, score.base))
            if isinstance(score, Segment)
            else self._density
        )

    @property
    def _times(self) -> float:
        """How often the events count, if they stand for a population."""
        population = self.spec.inference.population
        return 1.0 if population is None else population / self.evidence.gathered.n_effective

    @cached_property
    def _density(self) -> Density:
        gathered, times = self.evidence.gathered, self._times
        weights = gathered.weights if times == 1 else times * gathered.each
        return Density(self.target, gathered.rows, weights=weights)

    @cached_property
    def batch(self) -> int:
        """How many neighbouring draws are worth one that is independent."""
        sampled = self.snapshot.payload.sampled
        if sampled is None or sampled.shown.combined is not None:
            return 1
        worth = sampled.shown.n_effective_draws * len(sampled.draws) / max(1, sampled.shown.n_draws)
        return max(1, min(len(sampled.draws) // 20, int(np.ceil(len(sampled.draws) / max(1.0, worth)))))

    def _all(self) -> Evidence:
        spec, snapshot = self.spec, self.snapshot
        found = contained.all_of(spec, snapshot, self.bus.starts(names.data_topic(spec)))
        self._check_size(found)
        cut = None
        if spec.sampling is not None and spec.inference.by_time:
            seconds = (spec.inference.forget or {})["window_seconds"]
            cut = gathering.newest_time(spec, self.bus, self.schemas, found) - seconds
        gathered, weighing = self._gathered(found, contained.weighing_of(spec, snapshot, cut))
        return Evidence("all" if gathered.whole else "anchored", None, gathered, weighing)

    def _since(self, base: Snapshot) -> Evidence:
        if self.spec.sampling is not None or self.spec.inference.windowed:
            raise Unknowable(_REMOVED, _KEEP)
        found = contained.since(self.spec, self.snapshot, base)
        self._check_size(found, self.spec.monitor.events)
        gathered, weighing = self._gathered(found, contained.weighing_of(self.spec, self.snapshot))
        return Evidence("segment", base, gathered, weighing)

    def _check_size(self, found: Contained, most: int = MOST_EVENTS) -> None:
        positions = sum(span.end - span.start for span in found.spans)
        if positions == 0:
            raise Unknowable("There are no events to judge the posterior by.", "Wait for events.")
        if found.n_events is not None and found.n_events > most:
            raise Unknowable(f"{found.n_events:,} events are too many to be read again.", "Wait for a newer snapshot.")
        removed = any(span.start > 0 for span in found.spans) and self.spec.row_columns is None
        if found.n_events is not None and removed and positions < found.n_events:
            raise Unknowable(_REMOVED, _KEEP)

    def _gathered(self, found: Contained, weighing: Weighing) -> tuple[Gathered, Weighing]:
        parts = gathering.read(self.spec, self.bus, self.schemas, found, weighing)
        model = with_posterior(self.spec.model)
        most = self.spec.monitor.events
        gathered = gathering.gather(model, self.target, parts, weighing, most, self.anchor)
        if not gathered.n:
            raise Unknowable("There are no events to judge the posterior by.", "Wait for events.")
        return gathered, weighing


def _anchored(target: Any, anchor: Vector, gathered: Gathered, times: float) -> Anchored:
    """A uniform part without replacement: each event of it stands for N/m of its weight."""
    n, m = gathered.n, len(gathered.rows)
    if gathered.gradient is None or m < 2:
        raise Unknowable("Fewer than two events are held.", "Raise monitor.events.")
    scales = times * gathered.each * (n / m)
    variances = scales**2 * (1 - m / n) * m / (m - 1)
    return Anchored(target, anchor, times * gathered.gradient, gathered.rows, scales, variances, n)


class _Continued:
    """A target whose prior is an older posterior."""

    def __init__(self, target: Any, before: LogDensity) -> None:
        self._target, self.log_prior, self.prior_gradient = target, before.value, before.gradient

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)
