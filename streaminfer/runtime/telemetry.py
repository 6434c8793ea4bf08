"""What services tell about themselves: Prometheus metrics, in a registry that each process makes for itself."""

from __future__ import annotations

import math
import platform
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

from streaminfer import __version__
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.states import SamplerState
from streaminfer.variational.snapshot import Snapshot, together


class _Metrics:
    """Metrics of one role, all labelled with the posterior's name."""

    role: str

    def __init__(self, registry: CollectorRegistry, posterior: str) -> None:
        self._registry, self._posterior = registry, posterior

    def _counter(self, name: str, text: str) -> Counter:
        counter = Counter(f"streaminfer_{self.role}_{name}", text, ["posterior"], registry=self._registry)
        return counter.labels(self._posterior)

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(f"streaminfer_{self.role}_{name}", text, ["posterior"], registry=self._registry)
        return gauge.labels(self._posterior)


class Shown:
    """A gauge that is there from its first value until it is dropped: what nobody knows any more is not told."""

    def __init__(self, gauge: Gauge, *labels: str) -> None:
        self._gauge, self._labels = gauge, labels

    def set(self, value: float) -> None:
        self._gauge.labels(*self._labels).set(value)

    def drop(self) -> None:
        with suppress(KeyError):
            self._gauge.remove(*self._labels)


def about_process(registry: CollectorRegistry) -> None:
    """What version a process has, and what it needs of its machine."""
    labels = ["version", "python"]
    info = Gauge("streaminfer_build_info", "1; the labels say which versions run", labels, registry=registry)
    info.labels(__version__, platform.python_version()).set(1)
    ProcessCollector(registry=registry)


class WorkerMetrics(_Metrics):
    """Counters and gauges of a worker."""

    role = "worker"

    def __init__(self, registry: CollectorRegistry, posterior: str) -> None:
        super().__init__(registry, posterior)
        self.events = self._counter("events", "Events turned into statistics")
        self.minibatches = self._counter("minibatches", "Increments published")
        self.dead_letters = self._counter("dead_letters", "Events sent to dead-letters")
        self.ahead_of_time = self._counter(
            "events_ahead_of_time", "Events more than an hour ahead of their partition's time, counted as of that time"
        )
        self.lost = self._counter("lost_positions", "Positions that retention removed before they were read")
        self.seeks_back = self._counter("seeks_back", "Returns to the frontier because an increment was not folded")
        self.seeks_forward = self._counter("seeks_forward", "Jumps to a frontier that another worker moved")
        self.errors = self._counter("bus_errors", "Operations that the bus refused or did not answer")
        self.partitions = self._gauge("partitions", "Data partitions owned")
        self.ahead = self._gauge("minibatches_ahead", "Published minibatches that are not in the posterior yet")
        self.base_version = self._gauge("base_version", "Version of the newest snapshot seen")


class _Told(NamedTuple):
    """What was told of one shard."""

    snapshot: Snapshot
    n_effective: float
    scored: bool
    shared: bool


class MasterMetrics(_Metrics):
    """Counters and gauges of a master."""

    role = "master"

    def __init__(self, registry: CollectorRegistry, posterior: str) -> None:
        super().__init__(registry, posterior)
        self._shown: list[Shown] = []
        labels = ["posterior", "outcome"]
        text = "Increments by what became of them"
        self._outcomes = Counter("streaminfer_master_increments", text, labels, registry=registry)
        self.snapshots = self._counter("snapshots", "Snapshots committed")
        self.restores = self._counter("restores", "Times the posterior was restored from the log")
        self.errors = self._counter("bus_errors", "Operations that the bus refused or did not answer")
        self.version = self._state("version", "Version of the last snapshot committed")
        self.events = self._state("events", "Events in the posterior")
        self.effective = self._state("effective_events", "Sum of the weights of the events in the posterior")
        self.lost = self._state("lost_positions", "Positions that retention removed before they were read")
        self.dead_lettered = self._state("dead_lettered", "Events in dead-letters below the frontier")
        self.damped = self._state("damped", "Events whose increment was damped")
        self.rejected = self._state("rejected", "Events whose increment was folded as no change")
        self.unconverged = self._state("unconverged", "Events learned by an algorithm that had not converged")
        self.score = self._state(
            "score_per_event",
            "Mean log predictive density of the events, each under the posterior before its minibatch; NaN with keys",
        )
        self.alarms = self._state("drift_alarms", "Alarms of drift so far")
        self.drift = self._state(
            "drift_log_evidence", "Log evidence of drift; alarm at log(drift.events_per_false_alarm)"
        )

        self.keys = self._state("keys", "Keys of a keyed posterior, or words of topics")
        self.dirty_keys = self._state(
            "dirty_keys", "Rows of keys or words in the last snapshot: those that had changed"
        )
        self.expired = self._state("expired_keys", "Keys that were dropped as idle")
        self._behind = self._by_shard("positions_behind", "Positions of the data topic that are not in a shard yet")
        self._made = self._by_shard("snapshot_timestamp_seconds", "When the newest snapshot was made, since 1970")
        self._version = self._by_shard("shard_version", "Version of the last snapshot of a shard")
        self._shards: dict[int, _Told] = {}

    def _state(self, name: str, text: str) -> Shown:
        """A gauge of all shards that this master has."""
        return self._until_left(f"streaminfer_{self.role}_{name}", text)

    def _until_left(self, name: str, text: str) -> Shown:
        shown = Shown(Gauge(name, text, ["posterior"], registry=self._registry), self._posterior)
        self._shown.append(shown)
        return shown

    def _by_shard(self, name: str, text: str) -> Gauge:
        return Gauge(f"streaminfer_{self.role}_{name}", text, ["posterior", "shard"], registry=self._registry)

    def tell(self, shard: int, snapshot: Snapshot, n_effective: float, scored: bool, shared: bool = False) -> None:
        """A shard's newest snapshot; what a master has of several shards is shown together.

        `n_effective` is the sum of the weights of its events, which a manifest of keys does not have. If events are
        `shared` every shard counts all of them.
        """
        self.snapshots.inc()
        self._shards[shard] = _Told(snapshot, n_effective, scored, shared)
        self._version.labels(self._posterior, str(shard)).set(snapshot.version)
        self._made.labels(self._posterior, str(shard)).set(snapshot.created_at / 1000)
        self._show()

    def _show(self) -> None:
        """All shards as one."""
        told = list(self._shards.values())
        shared = told[0].shared
        whole = together([each.snapshot for each in told], shared)
        counts = whole.counts
        self.version.set(whole.version)
        self.events.set(counts.n_events)
        self.effective.set((min if shared else sum)(each.n_effective for each in told))
        self.lost.set(counts.n_lost)
        self.dead_lettered.set(counts.n_dead_lettered)
        self.damped.set(counts.n_damped)
        self.rejected.set(counts.n_rejected)
        self.unconverged.set(counts.n_unconverged)
        self.keys.set(counts.n_keys)
        self.expired.set(counts.n_expired)
        if whole.drift is not None:
            self.alarms.set(whole.drift.n_alarms)
            self.drift.set(whole.drift.log_evidence)
        if counts.n_events:
            self.score.set(counts.score / counts.n_events if all(each.scored for each in told) else math.nan)

    def behind(self, shard: int, positions: int) -> None:
        """How many positions of the log are not in a shard."""
        self._behind.labels(self._posterior, str(shard)).set(positions)

    def left(self, shard: int) -> None:
        """Another master has the shard now: what this one knows of it is old, and is told no more."""
        self._shards.pop(shard, None)
        for gauge in (self._behind, self._made, self._version):
            Shown(gauge, self._posterior, str(shard)).drop()
        if self._shards:
            self._show()
            return
        for shown in self._shown:
            shown.drop()

    def outcome(self, name: str) -> None:
        """Counts one increment by what became of it."""
        self._outcomes.labels(self._posterior, name).inc()


class CombinerMetrics(MasterMetrics):
    """Those of a master, and what is of combining alone."""

    def __init__(self, registry: CollectorRegistry, posterior: str) -> None:
        super().__init__(registry, posterior)
        labels = ["posterior"]
        rounds = "Combinations published"
        self.rounds = Counter("streaminfer_combiner_rounds", rounds, labels, registry=registry).labels(posterior)
        text = "Shape of the tail of importance weights in the newest combination; NaN if nothing was corrected"
        self.k_hat = self._until_left("streaminfer_combiner_k_hat", text)
        text = "1 if the exact density has corrected the newest combination"
        self.corrected = self._until_left("streaminfer_combiner_corrected", text)
        text = "Subposteriors that the newest combination is made without"
        self.left_out = self._until_left("streaminfer_combiner_left_out", text)
        self._round = -1

    def tell(self, shard: int, snapshot: Snapshot, n_effective: float, scored: bool, shared: bool = False) -> None:
        super().tell(shard, snapshot, n_effective, scored, shared)
        sampled = snapshot.payload.sampled
        combined = None if sampled is None else sampled.shown.combined
        if sampled is None or combined is None or combined.round == self._round:
            return
        self._round = combined.round
        self.rounds.inc()
        self.k_hat.set(math.nan if combined.k_hat is None else combined.k_hat)
        self.corrected.set(combined.corrected)
        self.left_out.set(sum(part.left_out for part in sampled.shown.subposteriors))


class SamplerMetrics(_Metrics):
    """Counters and gauges of a sampler, over all chains that it has."""

    role = "sampler"

    def __init__(self, registry: CollectorRegistry, posterior: str) -> None:
        super().__init__(registry, posterior)
        self.chains = self._gauge("chains", "Chains that this process runs")
        self.draws = self._counter("draws", "Draws published")
        self.steps = self._counter("steps", "Steps taken")
        self.likelihoods = self._counter("likelihoods", "Likelihoods of single events, without those of set-up")
        self.gradients = self._counter("gradients", "Gradients of single events, without those of set-up")
        self.read = self._counter("read", "Events that steps have read, without those of set-up")
        self.setup = self._counter("setup", "Likelihoods and gradients of single events before the first step")
        self.proposed = self._counter("proposed", "Proposals made")
        self.accepted = self._counter("accepted", "Proposals accepted")
        self.undone = self._counter("undone", "Steps that left the finite numbers and were undone")
        self.segment = self._gauge("segment", "Number of the newest segment")
        self.answers = self._counter("answers", "Questions of the combiner answered")
        self.answer_seconds = self._counter("answer_seconds", "Seconds spent on answers")
        self.errors = self._counter("bus_errors", "Operations that the bus refused or did not answer")

    def tell(self, before: SamplerState, now: SamplerState) -> None:
        """What a unit has done since its last commit."""
        old = before if before.segment == now.segment else replace(now, step=0, n_drawn=0, counters=Counters())
        self.segment.set(now.segment)
        self.draws.inc(now.n_drawn - old.n_drawn)
        self.steps.inc(now.step - old.step)
        for metric, name in (
            (self.likelihoods, "n_likelihood"), (self.gradients, "n_gradient"), (self.setup, "n_setup"),
            (self.proposed, "n_proposed"), (self.accepted, "n_accepted"), (self.undone, "n_undone"),
            (self.read, "n_read"),
        ):  # fmt: skip
            metric.inc(getattr(now.counters, name) - getattr(old.counters, name))


class MonitorMetrics(_Metrics):
    """Gauges of a monitor. Labels are posterior, check and service; keys of a keyed posterior are never among them."""

    role = "monitor"

    def __init__(self, registry: CollectorRegistry, posterior: str) -> None:
        super().__init__(registry, posterior)
        self.measures = self._gauge("measures", "1 if this process measures, 0 if it follows")
        self.ignored = self._gauge("ignored_records", "Records of metrics and health that were not what they should be")
        self.published = self._counter("measurements", "Measurements published")
        self.errors = self._counter("bus_errors", "Operations that the bus refused or did not answer")
        self.verdict = self._gauge("verdict", "0 trusted, 1 watch, 2 do not trust")
        self.waiting = self._gauge("waiting_seconds", "Seconds that the oldest event waits to be in the posterior")
        self.bad = self._gauge("bad_share", "Part of the events that are dead-lettered, lost or rejected")
        self._status = self._labelled("check_status", "Newest result: 0 good, 1 watch or unknown, 2 fail", "check")
        self._age = self._labelled("check_timestamp_seconds", "When a check was last made, since 1970", "check")
        self._beat = self._labelled("service_timestamp_seconds", "Newest beat of a service, since 1970", "service")
        self._silent = self._labelled("service_silent", "Processes of a service that are silent", "service")

    def _labelled(self, name: str, text: str, label: str) -> Gauge:
        return Gauge(f"streaminfer_monitor_{name}", text, ["posterior", label], registry=self._registry)

    def check(self, check: str, rank: int, measured_at: int) -> None:
        """The newest result of a check; `measured_at` is in milliseconds."""
        self._status.labels(self._posterior, check).set(rank)
        self._age.labels(self._posterior, check).set(measured_at / 1000)

    def service(self, service: str, newest: int, n_silent: int) -> None:
        """The newest beat of a service, in milliseconds, and how many of its processes are silent."""
        self._beat.labels(self._posterior, service).set(newest / 1000)
        self._silent.labels(self._posterior, service).set(n_silent)


HTTP_PORT: Final = "http_port"
"""The counter in a monitor's beats that says where it answers."""


def http_port(registry: CollectorRegistry, posterior: str, port: int) -> None:
    """Says at which port a monitor answers."""
    name = f"streaminfer_{MonitorMetrics.role}_{HTTP_PORT}"
    Gauge(name, "The port at which the monitor answers", ["posterior"], registry=registry).labels(posterior).set(port)


class UpMetrics(_Metrics):
    """Gauges of the supervisor behind `up`."""

    role = "up"

    def __init__(self, registry: CollectorRegistry, posterior: str) -> None:
        super().__init__(registry, posterior)
        self.alive = self._gauge("processes", "Supervised processes alive")
        self.restarts = self._gauge("restarts", "Processes started again")
        self.behind = self._gauge("behind", "Positions not in the posterior yet")
        self.events = self._gauge("events", "Events in the posterior")


class SubscriberMetrics(_Metrics):
    """Gauges of what keeps a snapshot in a file."""

    role = "subscriber"

    def __init__(self, registry: CollectorRegistry, posterior: str) -> None:
        super().__init__(registry, posterior)
        self.files = self._counter("files", "Files written")
        self.version = self._gauge("version", "Version of the snapshot in the file")
        self.events = self._gauge("events", "Events in the snapshot in the file")
        self.timestamp = self._gauge("snapshot_timestamp_seconds", "When that snapshot was made, since 1970")

    def tell(self, snapshot: Snapshot) -> None:
        """The file has this snapshot now."""
        self.files.inc()
        self.version.set(snapshot.version)
        self.events.set(snapshot.n_events)
        self.timestamp.set(snapshot.created_at / 1000)
