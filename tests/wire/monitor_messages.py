"""Valid measurements and beats for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streaminfer.measuring.measurement import Measurement, Value
from streaminfer.measuring.published import Moment, Published
from streaminfer.wire import beats, measurements
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.beats import Beat
from tests.wire.messages import FINGERPRINT

MOMENT = Moment(version=9, base_version=4, epoch=1, segment=2, frontier={0: 10, 3: 2**40}, n_events=900)
MEASUREMENT = Measurement(
    "coverage", "watch", "A 95% interval of weights[sqm] really holds 90%.", "Use a smaller minibatch.", "draws",
    "anchored", 1000, 20_000, 1.25, 2**63 - 1,
    (Value("coverage", "weights[sqm]", 0.9, 0.01), Value("shift", "", None, None, -1e300, 1e-300)),
    {"reliability": np.arange(6.0).reshape(3, 2), "empty": np.empty((0, 4))},
)  # fmt: skip
PUBLISHED = Published(FINGERPRINT, "demo.monitor", 1_700_000_000_123, MOMENT, MEASUREMENT)
BEAT = Beat(
    "svb-worker", "worker-1.0123abcd", 1_700_000_000_000, "host.example", True, {"events": 7.0}, 1_700_000_005_001
)


def measured(**changes: Any) -> Published:
    return replace(PUBLISHED, measurement=replace(MEASUREMENT, **changes))


def measurement_record(**changes: Any) -> tuple[bytes, bytes]:
    """Key and record with any field changed, also to what `encode` would never write."""
    key, data = measurements.encode(PUBLISHED, 1 << 20)
    return key, DECLARED.encode(measurements.TOPIC, {**DECLARED.decode(measurements.TOPIC, data), **changes})


def beat_record(**changes: Any) -> tuple[bytes, bytes]:
    key, data = beats.encode(BEAT)
    return key, DECLARED.encode(beats.TOPIC, {**DECLARED.decode(beats.TOPIC, data), **changes})
