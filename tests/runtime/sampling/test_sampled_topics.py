"""Topics of documents by the real sampler and master: the draws of `fit`, whatever is killed, and what users see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.cli.snapshot import one_line, print_summary
from streaminfer.spec import Spec
from tests.runtime.sampling.rig import SamplerRig, sampled
from tests.runtime.sampling.test_windows import same

WORDS = ["crust", "flour", "keel", "mast", "oven", "sail", "the", "wind", "yeast"]
MODEL: dict[str, Any] = {"kind": "lda", "field": "words", "topics": 2, "vocabulary": WORDS}
BREAD, BOATS = "flour yeast oven crust the oven", "sail mast keel wind the wind storm"
MINUTE = 60_000


def documents(n: int) -> list[dict[str, Any]]:
    """Lists and counts by turns, words that the vocabulary does not have, and a document without any word of it."""
    texts = [BOATS if i % 2 else BREAD for i in range(n)]
    lists: list[dict[str, Any]] = [{"words": text.split()} for text in texts]
    lists[3] = {"words": ["storm"]}
    return [{"words": dict.fromkeys(set(each["words"]), 1)} if i % 3 == 0 else each for i, each in enumerate(lists)]


def topics(**inference: Any) -> Spec:
    said = {"method": "sgrld", "draws": 8, "thin": 2, "warmup": 6, "minibatch": 16, **inference}
    return sampled(MODEL, **said)


def all_draws(rig: SamplerRig) -> np.ndarray:
    return np.concatenate([each.values for chain in range(2) for each in rig.draws(chain=chain)])


def test_the_draws_are_those_of_fit_and_bad_documents_are_dead_letters() -> None:
    rig = SamplerRig(topics())
    good = documents(60)
    rig.send(*good[:20], {"words": {"wind": 10**12}}, {"words": "text"}, b"{", *good[20:])
    found = rig.run_to(0, rig.sampler(), rig.master())
    assert (found.n_events, found.counts.n_dead_lettered) == (60, 3)
    assert "must have at most 100000 words" in str([record.headers for record in rig.records("dead-letters")])
    same(rig, good)


def places(rig: SamplerRig) -> list[list[tuple[str, int]]]:
    """Phase and step of every commit of each chain."""
    return [[(each.phase, each.end) for each in rig.draws(0, chain)] for chain in range(2)]


@pytest.mark.parametrize("batches", ["random", "shuffled"])
def test_a_sampler_that_is_killed_again_and_again_draws_the_same(batches: str) -> None:
    """A kill in set-up, and one after every commit; whoever follows goes on from what was committed."""
    good, spec = documents(60), topics(batches=batches, draws=20)
    rig = SamplerRig(spec, tick=0.1)
    rig.send(*good)
    master, reached = rig.master(), places(rig)
    rig.run(master, rig.sampler(), rounds=20, seconds=0.1)
    kills = 0
    while not all(each and each[-1][0] == "done" for each in reached):
        rig.clock.advance(60.0)
        sampler, kills = rig.sampler(), kills + 1
        while places(rig) == reached:
            rig.run(master, sampler, rounds=1, seconds=0.1)
        reached = places(rig)  # and the sampler is left without a farewell
    assert kills > 5
    rig.run_to(0, master, rig.sampler())
    untouched = SamplerRig(spec)
    untouched.send(*good)
    untouched.run_to(0, untouched.sampler(), untouched.master())
    assert np.array_equal(all_draws(rig), all_draws(untouched))
    same(rig, good)


@pytest.mark.parametrize("forget", [{"window_events": 30}, {"window_seconds": 1800}])
def test_a_window_is_a_fresh_spec_on_its_documents(forget: dict[str, int]) -> None:
    rig, good = SamplerRig(topics(forget=forget)), documents(70)
    for i, event in enumerate(good):
        rig.send(event, timestamp=10**12 + i * MINUTE)
    assert rig.run_to(0, rig.sampler(), rig.master()).n_events == 30
    same(rig, good[40:])


def test_new_documents_are_scored_under_the_topics_before_them() -> None:
    rig, good = SamplerRig(topics()), documents(100)
    sampler, master = rig.sampler(), rig.master()
    rig.send(*good[:60])
    rig.run_to(0, sampler, master)
    before = rig.seen()
    assert before.score is None
    rig.send(*good[60:])
    rig.run_to(1, sampler, master)
    after = rig.seen()
    assert after.snapshot.payload.sampled is not None
    assert (after.n_events, after.snapshot.payload.sampled.shown.n_scored) == (100, 40)
    assert after.score == pytest.approx(before.log_predictive(good[60:]).mean())
    assert after.score > 3 * np.log(1 / 9)


def test_what_users_see(capsys: pytest.CaptureFixture[str]) -> None:
    found = fit(topics(draws=20), documents(60))
    assert found.vocabulary == WORDS
    assert found.topics is not None
    likeliest = {words[0][0] for words in found.topics.top(3)}
    assert likeliest == {"oven", "wind"}
    assert found.mean["topics"].shape == found.sd["topics"].shape == (2, 9)
    np.testing.assert_allclose(found.mean["topics"].sum(axis=1), 1)
    assert found.sample(np.random.default_rng(1), 5)["topics"].shape == (5, 2, 9)
    assert found.to_inference_data()["posterior"]["topics"].shape == (2, 20, 2, 9)
    shares = found.predict([{"words": BOATS.split()}, {"words": []}])["topics"]
    assert shares[0].max() > 0.9
    np.testing.assert_allclose(shares[1], 0.5)
    told = found.to_json()
    assert (told["family"], told["natural"], told["truncated"], told["exactness"]) == (
        "draws", None, False, "unreliable",  # 40 draws, two steps apart, are worth about two
    )  # fmt: skip
    assert (told["parameters"]["vocabulary"], told["sampling"]["n_draws"], told["log_evidence"]) == (WORDS, 40, None)
    print_summary(found)
    assert "likeliest of 9 words" in capsys.readouterr().out
    assert one_line(found).endswith("9 words")


def test_topics_that_are_too_large_to_retain_still_predict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaminfer.sampling.pooled.pooling.MOST_BYTES", 100)
    found = fit(topics(), documents(60))
    assert found.sampling is not None
    assert found.sampling["n_retained"] == 0
    assert found.log_predictive({"words": BOATS.split()}) < 0
