"""Data that retention removes in the middle of a segment: it is cut, and a new one starts at the log's starts."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.sampling.rig import SamplerRig, sampled

COUNTS = [{"k": int(k)} for k in np.random.default_rng(0).poisson(3, 200)]


def begun(rounds: int) -> SamplerRig:
    """A rig whose chains are in the middle of their first segment; their process is gone."""
    rig = SamplerRig(sampled(draws=400), tick=0.01)
    rig.send(*COUNTS)
    sampler, master = rig.sampler(), rig.master()
    rig.run(sampler, master, rounds=rounds)
    sampler.close()
    master.close()
    return rig


@pytest.mark.parametrize(("rounds", "phase"), [(5, "warmup"), (12, "draws")])
def test_a_chain_that_has_lost_its_rows_is_cut_and_a_new_segment_starts(
    rounds: int, phase: str, scratch_folder: Path
) -> None:
    rig = begun(rounds)
    assert {state.phase for state in rig.states()} == {phase}
    before = {(block.chain, block.begin): block.values for block in rig.draws()}
    shutil.rmtree(scratch_folder)
    rig.remove_before(50)
    found = rig.run_to(1, rig.sampler(), rig.master())
    assert (found.n_events, found.counts.n_lost, found.counts.n_dropped) == (150, 50, 0)
    assert found.payload.sampled is not None
    assert found.payload.sampled.shown.cut
    after = {(block.chain, block.begin): block.values for block in rig.draws(0)}
    assert all((after[place] == values).all() for place, values in before.items())


def test_with_its_rows_in_scratch_a_chain_goes_on() -> None:
    rig = begun(8)
    rig.remove_before(50)
    found = rig.run_to(0, rig.sampler(), rig.master())
    assert found.n_events == 200
    assert found.payload.sampled is not None
    assert not found.payload.sampled.shown.cut


def test_data_that_is_removed_before_it_is_read_cuts_the_segment() -> None:
    rig = SamplerRig(sampled())
    rig.send(*COUNTS)
    rig.run(rig.master(), rounds=5)
    rig.remove_before(120)
    found = rig.run_to(1, rig.sampler(), rig.master())
    assert (found.n_events, found.counts.n_lost) == (80, 120)


def test_a_log_without_any_event_left_has_no_posterior_and_the_next_event_makes_one() -> None:
    rig = SamplerRig(sampled())
    rig.send(*COUNTS)
    rig.run(rig.master(), rounds=5)
    rig.remove_before(200)
    sampler, master = rig.sampler(), rig.master()
    found = rig.run_to(1, sampler, master)
    assert (found.n_events, found.counts.n_lost) == (0, 200)
    rig.send(*COUNTS[:10])
    assert rig.run_to(2, sampler, master).n_events == 10


def test_what_is_removed_after_a_complete_segment_is_lost_but_cuts_nothing() -> None:
    rig = SamplerRig(sampled())
    rig.send(*COUNTS)
    sampler, master = rig.sampler(), rig.master()
    rig.run_to(0, sampler, master)
    rig.remove_before(30)
    rig.send(*COUNTS)
    found = rig.run_to(1, sampler, master)
    assert (found.n_events, found.counts.n_lost) == (370, 30)
    assert found.payload.sampled is not None
    assert not found.payload.sampled.shown.cut


def test_a_window_loses_only_what_it_still_had_to_show() -> None:
    rig = SamplerRig(sampled(forget={"window_events": 50}))
    rig.send(*COUNTS)
    sampler, master = rig.sampler(), rig.master()
    rig.run_to(0, sampler, master)
    rig.remove_before(180)
    rig.send(*COUNTS)
    found = rig.run_to(1, sampler, master)
    assert (found.n_events, found.counts.n_lost) == (50, 0)


def test_a_window_that_is_cut_says_what_was_lost() -> None:
    rig = SamplerRig(sampled(forget={"window_events": 50}))
    rig.send(*COUNTS)
    rig.run(rig.master(), rounds=5)
    rig.remove_before(170)
    found = rig.run_to(1, rig.sampler(), rig.master())
    assert (found.n_events, found.counts.n_lost) == (30, 20)
    assert found.payload.sampled is not None
    assert found.payload.sampled.shown.cut
