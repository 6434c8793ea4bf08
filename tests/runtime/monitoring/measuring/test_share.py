"""Measuring without a pause takes its share of one core, and little memory."""

from __future__ import annotations

import resource
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.runtime.monitoring.measuring import measuring as module
from streaminfer.runtime.monitoring.measuring.measuring import Measuring
from tests.faults.programs import resident
from tests.runtime.monitoring.measuring.measuring_rig import LOGISTIC, logistic_rows, posterior, sent, spec_of

SHARE = 0.2


class Taken(NamedTuple):
    share: float
    """CPU seconds per second."""
    bytes: int
    versions: int


def taken(folder: Path, seconds: float) -> Taken:
    """A new version to measure whenever the one before is done, for so long."""
    spec, rows = spec_of(LOGISTIC, share=SHARE), logistic_rows(20_000)
    url = f"embedded:{folder}"
    with open_bus(url) as bus:
        sent(spec, bus, rows)
        snapshot = posterior(spec, bus, rows)
    before, began, most, version = _ended(), time.monotonic(), 0, 1
    with closing(Measuring(spec, url, "test")) as measuring:
        measuring.see(snapshot)
        while time.monotonic() - began < seconds:
            if any(each.moment.version == version for each in measuring.poll()):
                version += 1
                measuring.see(replace(snapshot, version=version))
            if measuring.helper.alive:
                most = max(most, resident(measuring.helper.pids[-1]))
            time.sleep(0.05)
    return Taken((_ended() - before) / (time.monotonic() - began), most, version)


def _ended() -> float:
    """CPU seconds of children that have ended: measuring kills its own at its close."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.long
@pytest.mark.timeout(900)
def test_measuring_takes_its_share_of_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    found = taken(tmp_path, 600.0)
    assert 0.8 * SHARE <= found.share <= 1.2 * SHARE, found
    assert found.bytes <= 300 << 20, found
    assert found.versions > 10, found
