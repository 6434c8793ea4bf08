"""A window of seconds with several subposteriors has one cut-off for all: so far before the newest event of any."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.runtime.service import Service
from streaminfer.sampling.pooled.shown import Shown
from streaminfer.sampling.segments import Segment
from streaminfer.spec import parse_spec
from streaminfer.tables import draws
from streaminfer.variational.snapshot import Snapshot
from tests.runtime.sampling.rig import POISSON, SamplerRig, sampled

MINUTE = 60
FIRST = 1_000_000_000
RNG = np.random.default_rng(8)
COUNTS = [int(k) for k in RNG.poisson(np.linspace(2, 9, 400))]
"""A rate that rises: other events are another posterior."""
STANDARD_ERRORS = 5.5


class Rig(SamplerRig):
    """Two subposteriors, of a partition each, and a window of an hour."""

    def __init__(self, **options: Any) -> None:
        given = {"method": "gibbs", "draws": 400, "subposteriors": 2, "forget": {"window_seconds": 3600}, **options}
        super().__init__(sampled(POISSON, {"partitions": 2}, **given))
        self.sent: list[tuple[int, int]] = []

    def at(self, partition: int, minutes: range) -> None:
        """An event each minute."""
        for minute in minutes:
            count = COUNTS[len(self.sent)]
            self.send({"k": count}, partition=partition, timestamp=1000 * (FIRST + MINUTE * minute))
            self.sent.append((minute, count))

    def complete(self, segment: int, *services: Service) -> Shown:
        for _ in range(400):
            self.run(*services, rounds=1)
            found = self.newest()
            shown = Shown() if found is None else draws.sampled(found).shown
            if shown.complete and [each.segment for each in shown.subposteriors] == [segment] * 2:
                return shown
        raise AssertionError(f"segment {segment} is not complete: {shown}")

    def is_right(self, shown: Shown, since: int) -> bool:
        """Whether the posterior is that of all events after a minute, by its evidence and its mean."""
        rows = [{"k": count} for minute, count in self.sent if minute > since]
        exact: Any = fit(parse_spec({"name": "exact", "model": POISSON}), rows)
        found, combined = self.seen(), shown.combined
        assert combined is not None
        assert combined.log_evidence is not None
        assert combined.log_evidence_error is not None
        worth = combined.n_proposals / (1 + combined.n_proposals * combined.log_evidence_error**2)
        off = abs(combined.log_evidence - exact.log_evidence()) / combined.log_evidence_error
        z = abs(found.mean["rate"] - exact.mean["rate"]) / exact.sd["rate"] * math.sqrt(worth)
        return found.n_events == len(rows) and max(off, z) < STANDARD_ERRORS


def test_all_subposteriors_have_the_window_of_the_newest_event() -> None:
    rig = Rig()
    rig.at(0, range(120))
    rig.at(1, range(90))  # the second is half an hour behind
    shown = rig.complete(0, rig.sampler(), rig.master())
    assert {each.cut_off for each in shown.segments} == {FIRST + MINUTE * 59}
    assert [each.n_events for each in shown.subposteriors] == [60, 30]
    assert rig.is_right(shown, since=59)
    assert {each["cut_off"] for each in rig.seen().to_json()["sampling"]["segments"]} == {"2001-09-09T02:45:40.000Z"}


def test_a_cut_off_for_each_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: each subposterior cuts by its own newest event."""
    right = draws.segment_of

    def own(snapshot: Snapshot, subposterior: int) -> Segment | None:
        found = right(snapshot, subposterior)
        return (
            None if found is None else found._replace(cut_off=float(FIRST + MINUTE * (59 if not subposterior else 29)))
        )

    monkeypatch.setattr(draws, "segment_of", own)
    rig = Rig()
    rig.at(0, range(120))
    rig.at(1, range(90))
    shown = rig.complete(0, rig.sampler(), rig.master())
    assert [each.n_events for each in shown.subposteriors] == [60, 60]
    assert not rig.is_right(shown, since=59)


def test_the_next_segments_begin_together_and_the_window_moves() -> None:
    rig = Rig(segment={"events": 10})
    services = rig.sampler(), rig.master()
    rig.at(0, range(60))
    rig.at(1, range(60))
    rig.complete(0, *services)
    rig.at(1, range(60, 100))  # of one alone, and the window of the other moves as well
    shown = rig.complete(1, *services)
    assert [each.n_events for each in shown.subposteriors] == [20, 60]
    assert rig.is_right(shown, since=39)


def test_a_subposterior_without_events_in_the_window_is_its_share_of_the_prior() -> None:
    rig = Rig()
    rig.at(0, range(120, 180))
    rig.at(1, range(90))
    shown = rig.complete(0, rig.sampler(), rig.master())
    assert [each.n_events for each in shown.subposteriors] == [60, 0]
    assert rig.is_right(shown, since=119)


def test_other_processes_go_on_with_the_same_events(scratch_folder: Path) -> None:
    """Whoever takes over has the cut-off from the manifest: the digest of the rows is the same."""
    rig = Rig(chains=1)
    rig.at(0, range(120))
    rig.at(1, range(90))
    master, sampler = rig.master(), rig.sampler()
    for _ in range(100):
        rig.run(master, sampler, rounds=1)
        if all(rig.records("draws", unit) for unit in range(2)):
            break
    for service in (sampler, master):
        service.close()
    shutil.rmtree(scratch_folder)
    before = [(state.digest, state.n_events) for state in rig.states()]
    shown = rig.complete(0, rig.sampler(), rig.master())
    assert [(state.digest, state.n_events) for state in rig.states()] == before
    assert [state.n_events for state in rig.states()] == [60, 30]
    assert not shown.cut
    assert rig.is_right(shown, since=59)


def test_retention_while_the_cut_off_is_looked_for() -> None:
    """The segment that was to be fixed is given up, and one of what is left comes in its place."""
    rig = Rig()
    rig.at(0, range(120))
    rig.at(1, range(90))
    master, sampler = rig.master(), rig.sampler()
    while master._shard is None or master._shard._cut_off is None:
        master.step(0.0)
        rig.clock.advance(0.5)
    rig.remove_before(80, partition=1)
    shown = rig.complete(0, sampler, master)
    assert [each.n_events for each in shown.subposteriors] == [60, 10]
