"""A posterior of draws: its statistics are moments, and beside them are retained draws and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from streaminfer.models.events import Events
from streaminfer.models.model import DomainError, Labels, Matrix
from streaminfer.models.targets.reading import reading_of
from streaminfer.sampling import flat
from streaminfer.sampling.chains.table import kernel_for
from streaminfer.sampling.pooled import pooling, score, trust
from streaminfer.sampling.pooled.posterior import DrawsPosterior
from streaminfer.sampling.pooled.showing import Showing
from streaminfer.sampling.pooled.shown import Sampled, Shown
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.units import Spans
from streaminfer.spec import Spec
from streaminfer.tables.demanded import lda_of
from streaminfer.tables.sampled_topics import SampledTopics
from streaminfer.tables.table import Described
from streaminfer.variational.counts import Totals
from streaminfer.variational.held import Held
from streaminfer.variational.snapshot import Snapshot


def statistics_size(spec: Spec) -> int:
    """Numbers of the statistics in a manifest."""
    return pooling.statistics_size(flat.size(spec.target.shapes))


def start(spec: Spec) -> Snapshot:
    """The snapshot before any draw."""
    size = flat.size(spec.target.shapes)
    held = Held(np.zeros(statistics_size(spec)), sampled=Sampled(np.empty((0, size))))
    return Snapshot(spec.fingerprint, 0, held)


def sampled(snapshot: Snapshot) -> Sampled:
    """What a snapshot has beside its moments; raises DomainError if it is not one of draws."""
    found = snapshot.payload.sampled
    if found is None:
        raise DomainError("a snapshot without the draws that its method makes")
    return found


def is_shown(snapshot: Snapshot) -> bool:
    """Whether a snapshot shows draws: the first only fixes a segment, and one without good events has none."""
    return sampled(snapshot).shown.n_draws > 0


def segment_of(snapshot: Snapshot, subposterior: int) -> Segment | None:
    """The newest segment of a subposterior that is fixed."""
    for each in sampled(snapshot).shown.segments:
        if each.subposterior == subposterior:
            return Segment(each.number, each.spans, each.cut_off)
    return None


def segment_at(snapshot: Snapshot, subposterior: int, number: int, spans: Spans) -> Segment:
    """A segment of a subposterior; the newest has the cut-off of a window in which subposteriors share one."""
    newest = segment_of(snapshot, subposterior)
    found = Segment(number, spans)
    return newest if newest is not None and newest._replace(cut_off=None) == found else found


def with_shown(snapshot: Snapshot, shown: Shown) -> Snapshot:
    """The same draws with something else said of them."""
    held = snapshot.payload
    return replace(snapshot, payload=replace(held, sampled=Sampled(sampled(snapshot).draws, shown)))


def snapshot_of(spec: Spec, showing: Showing, version: int = 1) -> Snapshot:
    """A version that shows some draws."""
    held = Held(showing.statistics, sampled=Sampled(showing.draws, showing.shown))
    counts = Totals(n_events=showing.n_events, n_dead_lettered=showing.n_dead_lettered, score=showing.score)
    return Snapshot(spec.fingerprint, version, held, counts=counts)


Scorer: TypeAlias = Callable[[Events], float]
"""How well draws predict events that they have not seen: the sum of log predictive densities."""


class Drawn(NamedTuple):
    """What draws are of."""

    scorer: Callable[[Spec, Matrix], Scorer]
    """Of draws (n, D)."""
    predicts: Callable[[Spec], bool]
    """Whether draws predict new rows, if the model does."""
    labels: Callable[[Spec], Mapping[str, Labels]]
    """The names of the numbers of each parameter."""
    topics: Callable[[Spec, Snapshot], SampledTopics] | None = None
    """The posterior of topics; None if they are not of topics."""


def _numbers_scorer(spec: Spec, draws: Matrix) -> Scorer:
    target = spec.target
    theta = target.unconstrain(flat.unflatten(draws, target.shapes))
    return lambda events: score.total(target, theta, reading_of(target).rows(target, events))


def _topics_scorer(spec: Spec, draws: Matrix) -> Scorer:
    statistics = np.zeros(statistics_size(spec))
    topics = _topics(spec, DrawsPosterior(spec.target, statistics, draws, (len(draws),)))
    return lambda events: float(topics.log_predictive(events.bagged).sum())


def _topics(spec: Spec, draws: DrawsPosterior) -> SampledTopics:
    return SampledTopics(lda_of(spec), spec.target.words, np.empty((0, 0)), draws)


def _word_labels(spec: Spec) -> Mapping[str, Labels]:
    return {**spec.model.labels, "topics": ((), tuple(word.decode() for word in spec.target.words))}


OF_NUMBERS: Final = Drawn(
    _numbers_scorer, lambda spec: hasattr(spec.target, "predictions"), lambda spec: spec.model.labels
)
OF_TOPICS: Final = Drawn(
    _topics_scorer, lambda _: True, _word_labels, lambda spec, snapshot: _topics(spec, posterior_of(spec, snapshot))
)


def posterior_of(spec: Spec, snapshot: Snapshot) -> DrawsPosterior:
    """The posterior that draws give; raises DomainError if their numbers do not fit together."""
    found = sampled(snapshot)
    combined = found.shown.combined
    by_chain = tuple(chain.n_retained for chain in found.shown.chains)
    if combined is not None:
        by_chain = (len(found.draws),)
    evidence = None if combined is None else combined.log_evidence
    return DrawsPosterior(spec.target, snapshot.payload.statistics, found.draws, by_chain, evidence)


def check(spec: Spec, snapshot: Snapshot) -> None:
    """Raises DomainError if a snapshot gives no posterior."""
    posterior_of(spec, snapshot)


def exactness(spec: Spec, snapshot: Snapshot | None) -> str:
    """`sampled`: draws of the posterior itself; `approximate`: of something near it; `unreliable`: draws of a snapshot
    that say little, whatever the method promises.

    What is combined is near the posterior, unless the exact density has corrected it.
    """
    if snapshot is not None:
        combined = sampled(snapshot).shown.combined
        if combined is not None:
            return "sampled" if combined.corrected else "approximate"
        if faults(spec, snapshot):
            return "unreliable"
    elif spec.sampling is not None and spec.sampling.combine is not None:
        return "approximate"
    return kernel_for(spec.inference.method, spec.target).exactness


def faults(spec: Spec, snapshot: Snapshot) -> list[str]:
    """Why the draws of a snapshot are not to be trusted."""
    chains = 0 if spec.sampling is None else spec.sampling.chains
    return trust.faults(sampled(snapshot).shown, chains)


def warnings(spec: Spec, snapshot: Snapshot) -> list[str]:
    """All that speaks against the draws of a snapshot."""
    combined = sampled(snapshot).shown.combined
    return [*faults(spec, snapshot), *(() if combined is None else combined.warnings)]


def described(spec: Spec, snapshot: Snapshot) -> Described:
    """What a manifest says beside its statistics; retained draws are in the place of natural parameters."""
    return Described(spec.kind, DrawsPosterior.family, exactness(spec, snapshot), sampled(snapshot).draws.ravel())
