"""What the monitor asks of its child, and what comes back, as messages on pipes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from streaminfer.runtime.following import manifests
from streaminfer.runtime.monitoring.measuring import frames
from streaminfer.runtime.monitoring.measuring.frames import BrokenPipe, Frame
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import snapshots

BEGIN: Final = b"b"
MEASURE: Final = b"m"
MEASURED: Final = b"r"
MOST_RECORD: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Begin:
    """The first message to a child."""

    document: Mapping[str, Any]
    """The spec with every default filled in."""
    folder: str
    """Where the files that it names are."""
    fingerprint: str
    bus: str
    writer: str
    """The monitor that publishes what is measured."""
    seconds: float
    """CPU seconds that may be used at once."""

    def spec(self) -> Spec:
        """The spec; raises SpecError, or BrokenPipe if the files that it names have changed."""
        spec = parse_spec(self.document, folder=Path(self.folder))
        if spec.fingerprint != self.fingerprint:
            raise BrokenPipe("the spec, or a file that it names, is not what the monitor started with")
        return spec


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Checks of one version. `older` are snapshots from before it, oldest first."""

    checks: tuple[str, ...]
    snapshot: Snapshot
    older: tuple[Snapshot, ...] = ()


def begin_frame(begin: Begin) -> Frame:
    return Frame(BEGIN, json.dumps(asdict(begin)).encode())


def begin_of(frame: Frame) -> Begin:
    if frame.kind != BEGIN:
        raise BrokenPipe("the first message must say what to measure")
    return Begin(**json.loads(frame.payload))


def request_frame(spec: Spec, request: Request) -> Frame:
    kept = [_snapshot_bytes(spec, each) for each in (request.snapshot, *request.older)]
    return Frame(MEASURE, frames.joined([json.dumps(request.checks).encode(), *kept]))


def request_of(spec: Spec, frame: Frame) -> Request:
    if frame.kind != MEASURE:
        raise BrokenPipe(f"a message of the kind {frame.kind!r} is not a request")
    checks, *kept = frames.parted(frame.payload)
    newest, *older = (_snapshot_of(spec, each) for each in kept)
    return Request(tuple(json.loads(checks)), newest, tuple(older))


def measured_frame(key: bytes, data: bytes) -> Frame:
    """A record of the topic `metrics`."""
    return Frame(MEASURED, frames.joined([key, data]))


def measured_of(frame: Frame) -> tuple[bytes, bytes]:
    pieces: Sequence[bytes] = frames.parted(frame.payload) if frame.kind == MEASURED else []
    if len(pieces) != 2:
        raise BrokenPipe("a message of the child is not a measurement")
    return pieces[0], pieces[1]


def _snapshot_bytes(spec: Spec, snapshot: Snapshot) -> bytes:
    """As on the posterior topic, without the natural parameters, which readers derive."""
    about = snapshots.About(spec.name, spec.kind, "", spec.inference.method, "")
    return frames.joined([data for _, data in snapshots.encode(snapshot, np.empty(0), about, MOST_RECORD)])


def _snapshot_of(spec: Spec, data: bytes) -> Snapshot:
    assembler = manifests.assembler(spec)
    found = [assembler.add(record) for record in frames.parted(data)]
    if not found or found[-1] is None:
        raise BrokenPipe("a message has no whole snapshot")
    manifests.check_snapshot(spec, found[-1])
    return found[-1]
