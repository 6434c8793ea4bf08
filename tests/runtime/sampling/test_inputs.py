"""Inputs of every size and order, and steps of every size: no draw and no snapshot has a number that is not finite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.cli.sampling_lines import lines_of
from streaminfer.runtime.service import Fatal
from tests.runtime.sampling.rig import LOGISTIC, SamplerRig, sampled

RNG = np.random.default_rng(5)
USUAL = [{"a": float(a), "b": float(b), "t": int(a + e > b)} for a, b, e in RNG.normal(size=(300, 3))]


def scaled(a: float, b: float) -> list[dict[str, Any]]:
    return [{"a": a * each["a"], "b": b * each["b"], "t": each["t"]} for each in USUAL]


INPUTS: dict[str, list[dict[str, Any]]] = {
    "small features": scaled(1e-6, 1e-6),
    "large features": scaled(1e6, 1e6),
    "both": scaled(1e6, 1e-6),
    "one class": [{**each, "t": 1} for each in USUAL],
    "fewer than a minibatch": USUAL[:5],
    "one event": USUAL[:1],
    "duplicates": USUAL[:1] * 100,
    "a constant feature": [{**each, "a": 5.0} for each in USUAL],
}


def finite(rig: SamplerRig) -> bool:
    """Whether all numbers on the bus are finite."""
    json.dumps(rig.seen().to_json(), allow_nan=False)
    blocks = rig.draws()
    numbers = [each for block in blocks for each in (block.values, block.weights, block.log_density)]
    return bool(blocks) and all(np.isfinite(each).all() for each in numbers)


METHODS: dict[str, dict[str, Any]] = {
    **{name: {"method": name} for name in ("mh", "mala", "gibbs", "sgld", "sghmc", "sgnht")},
    **{name: {"method": name} for name in ("subsampled_mh", "poisson_mh", "flymc")},
    "untuned flymc": {"method": "flymc", "bound": {"tune": "none"}},
    "corrected sgld": {"method": "sgld", "correct": {"rule": "t"}},
    "t-test": {"method": "subsampled_mh", "minibatch": 20, "control_variates": 0, "test": {"rule": "t"}},
}


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("method", METHODS)
def test_every_input_gives_finite_draws(method: str, inputs: str) -> None:
    """Decisions on subsets are by likelihoods that do not vary, and by first batches that are larger than all data."""
    rig = SamplerRig(sampled(LOGISTIC, **METHODS[method]))
    rig.send(*INPUTS[inputs])
    found = rig.run_to(0, rig.sampler(), rig.master())
    assert found.n_events == len(INPUTS[inputs])
    assert finite(rig)


@pytest.mark.parametrize("method", ["mh", "sgld"])
def test_the_order_of_labels_does_not_matter(method: str) -> None:
    """The same rows in another order: the same density, the same mode, nearly the same noise of gradients."""
    mixed, by_label = (
        fit(sampled(LOGISTIC, method=method, draws=400, warmup=200), rows)
        for rows in (USUAL, sorted(USUAL, key=lambda each: each["t"]))
    )
    assert by_label.mean["weights"] == pytest.approx(mixed.mean["weights"], abs=0.1)
    assert by_label.sd["weights"] == pytest.approx(mixed.sd["weights"], rel=0.25)


def test_duplicates_count_as_often_as_they_come() -> None:
    rig = SamplerRig(sampled(draws=2000))
    rig.send(*[{"k": 4}] * 500)
    found = rig.run_to(0, rig.sampler(), rig.master())
    assert found.n_events == 500
    assert rig.seen().mean["rate"] == pytest.approx(2001 / 501, rel=0.02)


@pytest.mark.parametrize("method", ["sgld", "sghmc", "sgnht"])
def test_steps_that_are_too_large_end_the_service_with_what_to_change(method: str) -> None:
    rig = SamplerRig(sampled(LOGISTIC, method=method, step={"size": 1e6}))
    rig.send(*USUAL)
    rule = r"chain \d: inference.step: 100 steps in a row left the finite numbers \(.*size 1e\+06\): make steps smaller"
    sampler, master = rig.sampler(), rig.master()
    with pytest.raises(Fatal, match=rule):
        rig.run(sampler, master, rounds=20)
    sampler.close()
    blocks = rig.draws()
    assert max(block.counters.n_undone for block in blocks) > 0
    assert all(np.isfinite(block.values).all() for block in blocks)


@pytest.mark.parametrize("method", ["mh", "mala"])
def test_proposals_that_are_too_far_are_refused_and_the_snapshot_says_so(method: str) -> None:
    rig = SamplerRig(sampled(LOGISTIC, method=method, step={"size": 1e6}))
    rig.send(*USUAL)
    rig.run_to(0, rig.sampler(), rig.master())
    document = rig.seen().to_json()
    assert document["sampling"]["acceptance"] == 0.0
    assert document["exactness"] == "unreliable"
    first, *_ = document["sampling"]["warnings"]
    assert first.startswith("none of the proposals were accepted, so these draws are not of the posterior")
    assert document["sampling"]["n_effective_draws"] < 20
    assert "not to be trusted: none of the proposals" in "\n".join(lines_of(rig.seen()))
    assert finite(rig)


def test_draws_of_chains_that_move_are_trusted() -> None:
    rig = SamplerRig(sampled(LOGISTIC, method="mala", draws=200, warmup=200))
    rig.send(*USUAL)
    rig.run_to(0, rig.sampler(), rig.master())
    document = rig.seen().to_json()
    assert (document["exactness"], document["sampling"]["warnings"]) == ("sampled", [])


def test_few_effective_draws_are_told() -> None:
    rig = SamplerRig(sampled(LOGISTIC, method="mala", draws=200, step={"size": 1e-9}))
    rig.send(*USUAL)
    rig.run_to(0, rig.sampler(), rig.master())
    document = rig.seen().to_json()
    assert document["exactness"] == "unreliable"
    assert "and fewer than 20 say little of the posterior" in document["sampling"]["warnings"][0]


def test_bad_events_are_dead_letters_once_over_several_segments_chains_and_processes() -> None:
    rig = SamplerRig(sampled(chains=3))
    first, second, master = rig.sampler(), rig.sampler(), rig.master()
    rig.send({"k": 1}, b"x", {"k": 2}, {"k": -1})
    found = rig.run_to(0, first, second, master)
    assert (found.n_events, found.counts.n_dead_lettered, len(rig.records("dead-letters"))) == (2, 2, 2)
    rig.send(b"y", *[{"k": 3}] * 5)
    found = rig.run_to(1, second, first, master)
    assert (found.n_events, found.counts.n_dead_lettered, len(rig.records("dead-letters"))) == (7, 3, 3)


def test_bad_events_are_dead_letters_also_if_the_process_of_another_chain_has_read_the_rows() -> None:
    rig = SamplerRig(sampled())
    rig.send({"k": 1}, b"x")
    master, first, second = rig.master(), rig.sampler(), rig.sampler()
    rig.run(first, second, rounds=3)  # each has a chain
    rig.run(master, rounds=5)
    for sampler in (first, second):
        if 0 not in {partition.index for partition in sampler._units}:
            rig.run(sampler, rounds=3)
    assert not rig.records("dead-letters")
    found = rig.run_to(0, first, second, master)
    assert (found.counts.n_dead_lettered, len(rig.records("dead-letters"))) == (1, 1)


def test_without_a_good_event_there_is_no_posterior_and_nothing_is_written_again_and_again() -> None:
    rig = SamplerRig(sampled())
    rig.send(b"x", b"y")
    sampler, master = rig.sampler(), rig.master()
    found = rig.run_to(0, sampler, master)
    assert (found.n_events, found.counts.n_dead_lettered) == (0, 2)
    ends = {short: rig.bus.ends(f"demo.{short}") for short in ("draws", "sampler-state", "posterior")}
    rig.run(sampler, master, rounds=20)
    assert ends == {short: rig.bus.ends(f"demo.{short}") for short in ("draws", "sampler-state", "posterior")}
    rig.send(*[{"k": 2}] * 3)
    assert rig.run_to(1, sampler, master).n_events == 3


def test_a_flipped_byte_in_scratch_is_read_again_from_the_log(scratch_folder: Path) -> None:
    rig = SamplerRig(sampled(draws=400), tick=0.01)
    rig.send(*[{"k": each % 5} for each in range(100)])
    sampler, master = rig.sampler(), rig.master()
    rig.run(sampler, master, rounds=8)
    sampler.close()
    (path,) = scratch_folder.glob("*/*.rows")
    data = bytearray(path.read_bytes())
    data[6] ^= 1
    path.write_bytes(data)
    rig.run_to(0, rig.sampler(), master)
    expected = fit(rig.spec, [{"k": each % 5} for each in range(100)])
    assert rig.seen().mean["rate"] == expected.mean["rate"]


def test_names_of_files_are_bounded(scratch_folder: Path) -> None:
    spec = sampled()
    rig = SamplerRig(spec)
    rig.send(*[{"k": 1}] * 3)
    rig.run_to(0, rig.sampler(), rig.master())
    (path,) = scratch_folder.glob("*/*.rows")
    assert len(path.name) - len(spec.name) < 60
