"""The reader of a sampler's manifests knows from the spec how large its draws are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.runtime.following import manifests
from streaminfer.sampling import flat
from streaminfer.sampling.pooled import pooling
from streaminfer.sampling.pooled.shown import Sampled, Shown
from streaminfer.spec import parse_spec
from streaminfer.wire import snapshots
from streaminfer.wire.errors import BadValue
from tests.made import new_snapshot

MODEL = {"kind": "gaussian", "fields": ["u", "v"]}


@pytest.mark.parametrize("forget", [None, {"window_events": 100}, {"window_seconds": 60}], ids=str)
def test_what_is_written_is_readable(forget: dict[str, Any] | None) -> None:
    spec = parse_spec({"name": "demo", "model": MODEL, "inference": {"method": "mh", "forget": forget}})
    size = flat.size(spec.target.shapes)
    about = snapshots.About("demo", spec.kind, "draws", "mh", "sampled")
    for more in (0, 1):
        held = Sampled(np.ones((2, size + more)), Shown(segment=0, n_draws=2))
        statistics = np.zeros(pooling.statistics_size(size))
        given = new_snapshot(fingerprint=spec.fingerprint, version=1, statistics=statistics, sampled=held)
        records = [data for _, data in snapshots.encode(given, np.zeros(0), about, 1 << 20)]
        if more:
            with pytest.raises(BadValue, match=f"n_retained must be of {size} numbers each"):
                manifests.check_readable(spec, records)
        else:
            manifests.check_readable(spec, records)


def test_a_variational_posterior_has_no_draws() -> None:
    spec = parse_spec({"name": "demo", "model": MODEL})
    held = Sampled(np.ones((2, 6)), Shown(segment=0, n_draws=2))
    statistics = np.zeros(spec.model.size)
    given = new_snapshot(fingerprint=spec.fingerprint, version=1, statistics=statistics, sampled=held)
    about = snapshots.About("demo", spec.kind, "normal_inverse_wishart", "svb", "exact")
    records = [data for _, data in snapshots.encode(given, np.zeros(0), about, 1 << 20)]
    with pytest.raises(BadValue, match="if and only if the posterior is made of draws"):
        manifests.check_readable(spec, records)
