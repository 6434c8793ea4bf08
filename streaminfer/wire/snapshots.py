"""Snapshots as records: chunks, then a manifest that names the version of each.

A snapshot that fits is one record, the manifest. Readers show nothing that is incomplete.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Vector
from streaminfer.sampling.pooled.pooling import MOST_BYTES
from streaminfer.sampling.pooled.shown import Sampled
from streaminfer.variational.counts import Totals
from streaminfer.variational.drift import watching
from streaminfer.variational.forgetting.decay import Clock, Clocks
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.held import Held
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import drift_states, vectors
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue, Older
from streaminfer.wire.increments import reached_of
from streaminfer.wire.sampled import shown

TOPIC: Final = "posterior"
MANIFEST: Final = b"manifest"
ENVELOPE: Final = 128 * 1024
"""Bytes left for the manifest: 1,024 partitions of frontier and 10,000 chunk versions fit."""
MAX_CHUNKS: Final = 4096
CLOCK: Final = 3
"""Numbers of a clock before its statistics: its index, the effective number of its events, the newest one's time."""
COUNTS: Final = tuple(field.name for field in fields(Totals))
YEAR_10000: Final = 253_402_300_800_000
NO_STAMP: Final = -1
NOWHERE: Final = -1
"""The start or end of a partition that has none."""


class OtherSpec(Exception):
    """The posterior on the bus belongs to a spec with another fingerprint."""

    def __init__(self, name: str, found: str, expected: str, why: str = "") -> None:
        super().__init__(
            f"the posterior {name!r} on this bus was made by another spec (fingerprint {found}, this one has "
            f"{expected}): {why}give the spec a new name, or use another bus"
        )
        self.name, self.found, self.expected = name, found, expected

    def explained(self, why: str) -> OtherSpec:
        """The same, with what is different, or how to go on with it."""
        return OtherSpec(self.name, self.found, self.expected, why)


@dataclass(frozen=True, slots=True)
class About:
    """What a manifest says beyond the numbers: the spec's name and what kind of posterior this is."""

    name: str
    kind: str
    family: str
    method: str
    exactness: str


def encode(
    snapshot: Snapshot, natural: NDArray[np.float64], about: About, max_bytes: int, schemas: Schemas = DECLARED
) -> list[tuple[bytes, bytes]]:
    """(key, record) of every chunk, the manifest last. Draws are in the place of natural parameters."""
    held, sampled = _numbers(snapshot.payload), snapshot.payload.sampled
    state = None if snapshot.drift is None else _drift_fields(snapshot.drift)
    rest = ENVELOPE + (0 if state is None else len(state["state"]))
    if sampled is not None:
        rest, natural = rest + shown.most_bytes(sampled), sampled.draws.ravel()
    if rest + vectors.NUMBER > max_bytes:
        raise BadValue(f"a manifest of {rest} bytes does not fit into a record of {max_bytes}")
    pieces = vectors.split(np.concatenate([held, natural]), max_bytes - rest)
    last = len(pieces) - 1
    version = snapshot.version
    records = []
    for i, piece in enumerate(pieces):
        manifest = _manifest(snapshot, about, [version] * len(pieces), len(held), state) if i == last else None
        value = {"version": version, "chunk": i, "payload": piece, "manifest": manifest, "key": None}
        records.append((MANIFEST if i == last else f"chunk-{i}".encode(), schemas.encode(TOPIC, value)))
    return records


def _numbers(held: Held) -> NDArray[np.float64]:
    """The statistics, then every clock with its own; those of an only clock are the statistics."""
    numbers = [held.statistics, *([] if held.average is None else [held.average])]
    for index, clock in sorted(held.clocks.items()):
        numbers.append(np.array([index, clock.n_effective, clock.newest]))
        if len(held.clocks) > 1:
            numbers.append(clock.statistics)
    return np.concatenate(numbers)


def _manifest(
    snapshot: Snapshot, about: About, chunk_versions: list[int], n_statistics: int, state: dict[str, Any] | None
) -> dict[str, Any]:
    held, frontier = snapshot.payload, snapshot.frontier
    return {
        "name": about.name,
        "fingerprint": snapshot.fingerprint,
        "kind": about.kind,
        "family": about.family,
        "method": about.method,
        "exactness": about.exactness,
        "created_at": snapshot.created_at,
        "read_to": snapshot.read_to,
        **{name: getattr(snapshot.counts, name) for name in COUNTS},
        "epoch": frontier.epoch,
        "topic_id": frontier.topic_id,
        "frontier": [
            {
                "partition": p,
                "position": at,
                "stamp": frontier.stamps.get(p, NO_STAMP),
                "start": frontier.starts.get(p, NOWHERE),
                "end": frontier.ends.get(p, NOWHERE),
                "reached": frontier.reached.get(p, ()),
            }
            for p, at in sorted(frontier.positions.items())
        ],
        "chunk_versions": chunk_versions,
        "n_statistics": n_statistics,
        "n_steps": held.n_steps,
        "averaged": held.average is not None,
        "n_batches": held.n_batches,
        "prior": held.prior,
        "drift": state,
        "sampling": None if held.sampled is None else shown.fields(held.sampled),
    }


def _drift_fields(state: watching.State) -> dict[str, Any]:
    return {
        "log_evidence": state.log_evidence,
        "n_alarms": state.n_alarms,
        "alarm_at": state.alarm_at,
        "state": drift_states.encode(state),
    }


class _Layout(NamedTuple):
    """How many numbers the statistics of a manifest have, how many clocks at most, and the numbers of a draw."""

    size: int
    most_clocks: int
    draw_size: int | None


class Assembler:
    """Turns the records of one posterior partition into snapshots, in their order.

    Versions only rise: what is not above the newest snapshot was appended again, by hand or from a part of a backup.
    But one that was made later is of a master that found no newer one: the log has gone back, and readers follow.
    No row of a key or word is newer than its manifest, which comes after it. If the posterior is made of draws, each
    has `draw_size` numbers.
    """

    def __init__(
        self,
        fingerprint: str,
        statistics_size: int,
        schemas: Schemas = DECLARED,
        most_clocks: int = 0,
        draw_size: int | None = None,
    ) -> None:
        self._fingerprint, self._schemas = fingerprint, schemas
        self._layout = _Layout(statistics_size, most_clocks, draw_size)
        most_draws = 0 if draw_size is None else MOST_BYTES
        self._most = 64 * statistics_size + 8 * (statistics_size + CLOCK) * most_clocks + most_draws + ENVELOPE
        """Bytes of chunks that are held: several times those of statistics and natural parameters, and the clocks'."""
        self._chunks: dict[int, tuple[int, bytes]] = {}
        self.newest = 0
        """The version of the newest whole snapshot."""
        self.newest_row = 0
        self._created_at = -1

    def saw_row(self, version: int) -> None:
        """A row of this version stands here; raises Older."""
        self._check_version(version)
        self.newest_row = max(self.newest_row, version)

    def _check_version(self, version: int) -> None:
        if version <= self.newest:
            raise Older(
                f"version {version} after version {self.newest}: versions only rise, so this was appended again"
            )

    def add(self, data: bytes | None) -> Snapshot | None:
        """A snapshot if this record completes one; raises WireError, or OtherSpec if the record has another spec."""
        value = self._schemas.decode(TOPIC, data)
        manifest = value["manifest"]
        if value["key"] is not None:
            raise BadValue("a key's record must have a record key that says so")
        if not 0 <= value["chunk"] < MAX_CHUNKS or value["version"] < 1:
            raise BadValue(f"chunk {value['chunk']} of version {value['version']} cannot be")
        if manifest is not None and manifest["fingerprint"] != self._fingerprint:
            raise OtherSpec(manifest["name"], manifest["fingerprint"], self._fingerprint)
        if manifest is not None and milliseconds(manifest["created_at"]) <= self._created_at:
            self._check_version(value["version"])
        if manifest is None:
            self._hold(value["chunk"], value["version"], value["payload"])
            return None
        if value["version"] < self.newest_row:
            raise BadValue(f"a manifest of version {value['version']} after rows of version {self.newest_row}")
        versions = manifest["chunk_versions"]
        if len(versions) != value["chunk"] + 1:
            raise BadValue(f"{len(versions)} chunk versions in a manifest that is chunk {value['chunk']}")
        pieces = [self._chunks.get(i, (0, b"")) for i in range(value["chunk"])]
        if [version for version, _ in pieces] != versions[:-1]:
            return None
        payload = b"".join([*(piece for _, piece in pieces), value["payload"]])
        found = _snapshot(value["version"], manifest, payload, self._layout)
        self.newest, self._created_at = found.version, found.created_at
        return found

    def _hold(self, chunk: int, version: int, payload: bytes) -> None:
        self._chunks.pop(chunk, None)
        if sum(len(piece) for _, piece in self._chunks.values()) + len(payload) > self._most:
            raise BadValue(f"chunks of more than {self._most} bytes, but the model has {self._layout.size} statistics")
        self._chunks[chunk] = (version, payload)


def _snapshot(version: int, manifest: Mapping[str, Any], payload: bytes, layout: _Layout) -> Snapshot:
    held, frontier = _held(manifest, payload, layout), _frontier(manifest)
    created_at = milliseconds(manifest["created_at"])
    if not 0 <= created_at < YEAR_10000:
        raise BadValue(f"a snapshot cannot be of the time {created_at}")
    counts = Totals(**{name: manifest[name] for name in COUNTS})
    whole = [manifest[name] for name in manifest if name.startswith("n_") or name in {"read_to", "staleness"}]
    if min(*whole, *frontier.positions.keys(), *frontier.positions.values()) < 0 or not math.isfinite(counts.score):
        raise BadValue("a count or position is negative, or the score is not finite")
    drift = None if manifest["drift"] is None else _drift(manifest["drift"], counts.n_events)
    return Snapshot(manifest["fingerprint"], version, held, frontier, counts, drift, manifest["read_to"], created_at)


def _held(manifest: Mapping[str, Any], payload: bytes, layout: _Layout) -> Held:
    size, n_statistics = layout.size, manifest["n_statistics"]
    averaged = manifest["averaged"]
    n_clocks = _n_clocks(n_statistics - size * averaged, size)
    n_clocks = None if averaged and n_clocks != 0 else n_clocks
    if n_clocks is None or n_clocks > layout.most_clocks:
        raise BadValue(f"{n_statistics} statistics, but the model has {size}")
    numbers = vectors.join([payload], len(payload) // 8)
    if len(numbers) < n_statistics:
        raise BadValue(f"a payload of {len(numbers)} numbers does not hold {n_statistics} statistics")
    return Held(
        statistics=numbers[:size].copy(),
        clocks=_clocks(numbers[:n_statistics], size, n_clocks),
        n_steps=manifest["n_steps"],
        average=numbers[size : 2 * size].copy() if averaged else None,
        n_batches=manifest["n_batches"],
        prior=manifest["prior"],
        sampled=_sampled(manifest["sampling"], numbers[n_statistics:], layout.draw_size),
    )


def _sampled(sampling: Mapping[str, Any] | None, numbers: Vector, draw_size: int | None) -> Sampled | None:
    if sampling is None or draw_size is None:
        if sampling is not None or draw_size is not None:
            raise BadValue("sampling must be there if and only if the posterior is made of draws")
        return None
    return shown.sampled(sampling, numbers, draw_size)


def _frontier(manifest: Mapping[str, Any]) -> Frontier:
    entries = manifest["frontier"]
    stamps = {each["partition"]: each["stamp"] for each in entries if each["stamp"] != NO_STAMP}
    if not all(0 <= stamp < YEAR_10000 for stamp in stamps.values()):
        raise BadValue("the stamp of a partition must be of the years 1970 to 9999, or -1")
    starts, ends = _passes(manifest)
    return Frontier(
        positions={entry["partition"]: entry["position"] for entry in entries},
        epoch=manifest["epoch"],
        starts=starts,
        ends=ends,
        reached={each["partition"]: reached_of(each["reached"]) for each in entries if each["reached"]},
        stamps=stamps,
        topic_id=manifest["topic_id"],
    )


def _passes(manifest: Mapping[str, Any]) -> tuple[dict[int, int], dict[int, int]]:
    """Where every pass over the data starts and ends, by partition."""
    entries = manifest["frontier"]
    starts, ends = (
        {each["partition"]: each[name] for each in entries if each[name] != NOWHERE} for name in ("start", "end")
    )
    if not all(0 <= starts.get(each["partition"], 0) <= each["position"] for each in entries):
        raise BadValue("the start of a partition must be before its frontier, or -1")
    if (ends and len(ends) < len(entries)) or not all(starts.get(index, end + 1) <= end for index, end in ends.items()):
        raise BadValue("all partitions must have ends after their starts, or none")
    if manifest["epoch"] < 0 or (manifest["epoch"] > 0 and not ends and entries):
        raise BadValue(f"a pass {manifest['epoch']} without ends cannot be")
    return starts, ends


def _drift(fields: Mapping[str, Any], n_events: int) -> watching.State:
    n_alarms, alarm_at = fields["n_alarms"], fields["alarm_at"]
    if n_alarms < 0 or not -1 <= alarm_at <= n_events or (n_alarms == 0) != (alarm_at == -1):
        raise BadValue(f"{n_alarms} alarms of drift, the newest after {alarm_at} of {n_events} events, cannot be")
    state = drift_states.decode(fields["state"], n_alarms, alarm_at)
    if not math.isclose(fields["log_evidence"], state.log_evidence, rel_tol=1e-9):  # logarithms differ by machine
        raise BadValue(f"a log evidence of {fields['log_evidence']:g} is not the {state.log_evidence:g} of the state")
    return state


def _n_clocks(n_statistics: int, size: int) -> int | None:
    """How many clocks N numbers are; None if it cannot be."""
    rest = n_statistics - size
    if rest in {0, CLOCK}:
        return rest // CLOCK
    count, left = divmod(rest, size + CLOCK)
    return count if count > 1 and left == 0 else None


def _clocks(numbers: NDArray[np.float64], size: int, n_clocks: int) -> Clocks:
    if n_clocks == 0:
        return {}
    if n_clocks == 1:  # its statistics are those of the whole
        numbers = np.append(numbers, numbers[:size])
    clocks = {}
    for row in numbers[size:].reshape(n_clocks, -1):
        index, n_effective, newest = row[:CLOCK].tolist()
        if index != int(index) or index < 0 or index in clocks or n_effective < 0:
            raise BadValue(f"clock {index:g} with {n_effective:g} effective events cannot be")
        clocks[int(index)] = Clock(row[CLOCK:].copy(), n_effective, newest)
    return clocks


def milliseconds(moment: datetime | int) -> int:
    """fastavro gives timestamp-millis as a datetime, or as a number beyond the year 9999."""
    return round(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment


def iso(milliseconds: int) -> str:
    """A time as RFC 3339 with milliseconds, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
