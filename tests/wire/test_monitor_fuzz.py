"""Whatever bytes come, measurements and beats are decoded to values within their bounds, or refused."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
from hypothesis import given

from streaminfer.wire import beats, measurements
from streaminfer.wire.errors import WireError
from tests.wire.budget import examples
from tests.wire.messages import FINGERPRINT
from tests.wire.monitor_messages import beat_record, measurement_record
from tests.wire.mutation import LONGS, arbitrary, mutated

MEASURED, BEATEN = measurement_record(), beat_record()


def _decode(data: bytes) -> None:
    with suppress(WireError):
        found = measurements.decode(MEASURED[0], data, FINGERPRINT)
        assert (found.fingerprint, found.measurement.check) == (FINGERPRINT, "coverage")
        assert min(found.moment.version - found.moment.base_version, *found.moment.frontier.values(), 0) == 0
        for value in found.measurement.values:
            assert all(number is None or math.isfinite(number) for number in value[2:])
        assert all(np.isfinite(curve).all() and curve.ndim == 2 for curve in found.measurement.curves.values())
        assert (found.measurement.sentence + found.measurement.remedy + found.writer).isprintable()
        measurements.encode(found, 2 << 20)
    with suppress(WireError):
        beat = beats.decode(BEATEN[0], data)
        assert beats.encode(beat)[0] == BEATEN[0]
        assert all(map(math.isfinite, beat.counters.values()))


@examples("measurements.decode and beats.decode, arbitrary bytes")
@given(arbitrary())
def test_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        for frame in (b"", b"\x00\x00\x00\x00\x0f", b"\x00\x00\x00\x00\x10"):
            _decode(frame + data)


@examples("measurements.decode and beats.decode, mutated")
@given(mutated([MEASURED[1], BEATEN[1]], LONGS))
def test_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _decode(data)
