"""The cases of topic models and of models that need a base, with very little work and without the peers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import topic_cases, topic_processes, topic_spec
from benchmarks.cases import QUICK, Bench
from benchmarks.contenders import bare_steps, topics_local, topics_ours, topics_plain
from benchmarks.contenders.task import Task
from benchmarks.contenders.topic_task import TopicTask
from benchmarks.corpus import CHAPTERS, Corpus, drawn, given, score, unigram
from benchmarks.processes import Failed
from benchmarks.proof import EXACT, ROOM, sum_of_squares
from benchmarks.workload import LOGISTIC, MIXTURE, Workload, matrix, spec
from streaminfer.spec import parse_spec
from tests.variational.one_pass import one_pass

SMALL = Corpus(1_024, topics=5, words=200, held_out=100, minibatch=64)


def test_true_topics_foretell_better_than_the_words_frequencies() -> None:
    of = drawn(SMALL)
    assert (of.learned.n, of.held_out.n) == (1_024, 100)
    assert score(of.true_topics(), of.held_out) > unigram(of, SMALL.words) + 0.1


@pytest.mark.parametrize("contender", [topics_ours, topics_plain, topics_local])
def test_every_word_is_counted(contender: object) -> None:
    done = contender.main(TopicTask(SMALL))
    np.testing.assert_allclose(done.words, drawn(SMALL).learned.counts.sum(), rtol=1e-9)
    assert done.rate > 0


def test_the_loop_with_scores_learns_the_same() -> None:
    assert topics_ours.main(TopicTask(SMALL)).nats == topics_ours.main(TopicTask(SMALL, scored=True)).nats


def test_records_hold_the_documents() -> None:
    learned = drawn(SMALL).learned
    made = [json.loads(record)["words"] for record in topic_spec.records(SMALL, learned)]
    assert [sum(bag.values()) for bag in made] == learned.lengths.tolist()


def test_topics_by_real_processes(tmp_path: Path) -> None:
    """Every word is counted once, or the case would fail."""
    found = topic_processes.measure(tmp_path, f"embedded:{tmp_path / 'bus'}", Corpus(4_096, 5, 200, minibatch=64))
    assert found[topic_processes.RATE] > 0
    assert found[topic_processes.DENSE] == 8 * 5 * 200


def test_a_contender_without_all_words_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_cases, "_words", lambda _: 1.0)
    with pytest.raises(Failed, match="words of 1"):
        topic_cases.contend("topics_local", TopicTask(SMALL))


@pytest.mark.parametrize("work", [Workload("json", 4_000, kind=LOGISTIC), Workload("json", 1_000, d=4, kind=MIXTURE)])
def test_the_bare_steps_have_all_events(work: Workload) -> None:
    done = bare_steps.main(Task(work))
    assert done.events == work.events
    room = ROOM.get(work.kind, EXACT)
    np.testing.assert_allclose(done.sum_of_squares, (matrix(work)[:, -1] ** 2).sum(), rtol=room)


def test_a_logistic_regression_of_a_part_of_the_events_is_found() -> None:
    """The proof is of all 4,000 events; 200 of them were not learned."""
    work = Workload("json", 4_000, kind=LOGISTIC)
    model, events = parse_spec(json.loads(spec("bench", work))).model, matrix(work)
    few, all_of_them = (one_pass(model, events[:n], 500) for n in (3_800, 4_000))
    ones = events[:, -1].sum()
    assert sum_of_squares(model, all_of_them, events) == pytest.approx(ones, rel=ROOM[LOGISTIC])
    assert sum_of_squares(model, few, events) != pytest.approx(ones, rel=ROOM[LOGISTIC])


def test_a_model_that_needs_a_base_by_real_processes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, QUICK, None)
    assert bench.ours(bench.embedded_url, Workload("json", 8_192, d=2, kind=LOGISTIC)).rate > 0


@pytest.mark.parametrize("method", ["svb", "svi"])
def test_real_chapters_are_foretold_far_better_than_by_the_words_frequencies(method: str) -> None:
    """Both are above 0.48; the mutant, documents that are fitted to the bound, is at 0.23 by svb."""
    chapters = given(CHAPTERS)
    assert (chapters.learned.n, chapters.held_out.n) == (CHAPTERS.documents, CHAPTERS.held_out)
    assert chapters.learned.words.max() < CHAPTERS.words
    done = topics_ours.main(TopicTask(CHAPTERS, method=method))
    np.testing.assert_allclose(done.words, chapters.learned.counts.sum(), rtol=1e-9)
    assert done.nats > unigram(chapters, CHAPTERS.words) + 0.4


def test_the_case_of_chapters_has_everybodys_rate_and_score() -> None:
    case = topic_cases.chapters()
    assert case.letter == "h2"
    assert {"streaminfer, svb loop", "streaminfer, svi loop", "scikit-learn", "gensim"} <= set(case.contenders)
    assert list(topic_cases.limits(CHAPTERS)) == ["held out: the words' frequencies"]
