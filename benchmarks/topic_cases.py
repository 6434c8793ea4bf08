"""The cases of topic models: beside their peers, growth, and by the real processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks import topic_processes
from benchmarks.contenders.topic_task import Learned, TopicTask
from benchmarks.corpus import CHAPTERS, Corpus, drawn, given, score, unigram
from benchmarks.measure import Aim, Case, Difference, Ratio, Samples
from benchmarks.processes import Failed, output, running

UNIT: Final = "documents/s"
NATS: Final = "nats/word"
LOOP, SVB = "streaminfer, svi loop", "streaminfer, svb loop"
PLAIN, STEP = "streaminfer, plain loop", "streaminfer, local step"
SCORING, NUMPY = "streaminfer, svi loop with scores", ", without numba"
SKLEARN, GENSIM, TOMOTOPY = "scikit-learn", "gensim", "tomotopy, 50 sweeps"
FREQUENCIES, TRUTH = "the words' frequencies", "the true topics"
BARE_STEP, BARE_LOOP = "bare local step", "bare loop with scores"
LARGE: Final = 100_000
"""Words of a large vocabulary, most of which no minibatch has."""


def cases(folder: Path, url: str, documents: int) -> Iterator[Case]:
    """`documents` are a multiple of the partitions times a minibatch."""
    yield peers(Corpus(documents))
    yield chapters()
    yield growth(Corpus(documents // 4))
    yield processes("j1", folder, url, Corpus(documents))
    yield processes("j2", folder, url, Corpus(documents // 2, words=LARGE))


def peers(corpus: Corpus) -> Case:
    """One pass of everybody over the same documents, one core each, and how well their topics predict others."""
    tasks = {
        **_everybody(corpus),
        LOOP + NUMPY: ("topics_ours", TopicTask(corpus, compiled=False)),
        SCORING: ("topics_ours", TopicTask(corpus, scored=True)),
        PLAIN: ("topics_plain", TopicTask(corpus)),
        PLAIN + NUMPY: ("topics_plain", TopicTask(corpus, compiled=False)),
    }
    online = (SKLEARN, GENSIM)
    quality = Aim(">=", 0.0)
    return Case(
        "h1",
        f"LDA, one core, one pass over {corpus.documents:,} documents, K = {corpus.topics}, V = {corpus.words:,}",
        UNIT,
        {name: _run(name, *task) for name, task in tasks.items()} | {"limits": lambda: limits(corpus)},
        [
            *(Ratio(f"svi loop, of {peer}", LOOP, peer, Aim(">=", 3.0)) for peer in online),
            *(_behind("svi loop", LOOP, peer, quality) for peer in online),
            *(Ratio(f"plain loop, of {peer}", PLAIN, peer) for peer in online),
            *(_behind("plain loop", PLAIN, peer) for peer in online),
            *(Ratio(f"plain loop{NUMPY}, of {peer}", PLAIN + NUMPY, peer) for peer in online),
            Ratio("svi loop, of the local step", LOOP, STEP),
            Ratio("svi loop with scores, of that without", SCORING, LOOP),
        ],
        units={held_out(name): NATS for name in (*tasks, FREQUENCIES, TRUTH)},
        most=3,
    )


def chapters() -> Case:
    """The same on documents that people wrote: here the words' frequencies alone predict far less than topics do."""
    corpus, tasks = CHAPTERS, _everybody(CHAPTERS)
    enough = Aim(">=", 0.4)
    ours, peers = {"svb loop": SVB, "svi loop": LOOP}, (SKLEARN, GENSIM)
    return Case(
        "h2",
        f"LDA, one core, one pass over {corpus.documents:,} chapters, K = {corpus.topics}, V = {corpus.words:,}",
        UNIT,
        {name: _run(name, *task) for name, task in tasks.items()} | {"limits": lambda: limits(corpus)},
        [
            *(_behind(what, name, FREQUENCIES, enough) for what, name in ours.items()),
            *(_behind(what, name, peer, Aim(">=", 0.0)) for what, name in ours.items() for peer in peers),
            *(_behind(what, name, TOMOTOPY) for what, name in ours.items()),
            *(Ratio(f"{what}, of {peer}", name, peer) for what, name in ours.items() for peer in peers),
        ],
        units={held_out(name): NATS for name in (*tasks, FREQUENCIES)},
        most=3,
    )


def _everybody(corpus: Corpus) -> dict[str, tuple[str, TopicTask]]:
    """Ours and the peers, with the settings of the corpus."""
    return {
        LOOP: ("topics_ours", TopicTask(corpus)),
        SVB: ("topics_ours", TopicTask(corpus, method="svb")),
        SKLEARN: ("topics_sklearn", TopicTask(corpus)),
        GENSIM: ("topics_gensim", TopicTask(corpus)),
        TOMOTOPY: ("topics_tomotopy", TopicTask(corpus)),
    }


def _run(name: str, contender: str, task: TopicTask) -> Callable[[], Samples]:
    steps = {LOOP: STEP, LOOP + NUMPY: STEP + NUMPY}

    def samples() -> Samples:
        done = contend(contender, task)
        found = {name: done.rate, held_out(name): done.nats}
        return found | ({steps[name]: done.documents / done.local_s} if name in steps else {})

    return samples


def held_out(name: str) -> str:
    return f"held out: {name}"


@cache
def limits(corpus: Corpus) -> Samples:
    """What topics must be above, and what no topics can be above by much."""
    if corpus.real:
        return {held_out(FREQUENCIES): unigram(given(corpus), corpus.words)}
    of = drawn(corpus)
    return {held_out(FREQUENCIES): unigram(of, corpus.words), held_out(TRUTH): score(of.true_topics(), of.held_out)}


def growth(base: Corpus) -> Case:
    """The local step with more or fewer topics and words; 50 and 5,000 are those of the other cases."""
    corpora = [
        *(replace(base, topics=k) for k in (10, 50, 200)),
        *(replace(base, words=v) for v in (1_000, LARGE)),
    ]
    named = {f"K = {corpus.topics}, V = {corpus.words:,}": corpus for corpus in corpora}

    def run(name: str, corpus: Corpus) -> Callable[[], Samples]:
        return lambda: {name: contend("topics_local", TopicTask(replace(corpus, held_out=0))).rate}

    standard = f"K = {base.topics}, V = {base.words:,}"
    return Case(
        "i",
        f"LDA, the local step on {base.documents:,} documents, one core: growth",
        UNIT,
        {name: run(name, corpus) for name, corpus in named.items()},
        [Ratio(f"{name} of {standard}", name, standard) for name in named if name != standard],
        most=3,
    )


def processes(letter: str, folder: Path, url: str, corpus: Corpus) -> Case:
    """The processes of `up`, and in memory the local step alone and all that they compute."""
    rate, sparse, dense = topic_processes.RATE, topic_processes.SPARSE, topic_processes.DENSE
    memory = replace(corpus, held_out=256)
    return Case(
        letter,
        f"LDA, embedded, one JSON record a document, one worker, {topic_processes.SHARDS} shards, "
        f"K = {corpus.topics}, V = {corpus.words:,}",
        UNIT,
        {
            rate: lambda: topic_processes.measure(folder, url, corpus),
            BARE_STEP: lambda: _step_alone(memory),
            BARE_LOOP: lambda: {BARE_LOOP: contend("topics_ours", TopicTask(memory, scored=True)).rate},
        },
        [
            Ratio(f"of the {BARE_STEP}", rate, BARE_STEP),
            Ratio(f"of the {BARE_LOOP}", rate, BARE_LOOP),
            Ratio("sparse, of dense", sparse, dense),
        ],
        units=dict.fromkeys((sparse, dense), "bytes/minibatch"),
        most=3,
    )


def _step_alone(corpus: Corpus) -> Mapping[str, float]:
    """The time that the loop in memory spends in the local step: on the topics as they are learned."""
    done = contend("topics_ours", TopicTask(corpus))
    return {BARE_STEP: done.documents / done.local_s}


def _behind(what: str, over: str, peer: str, aim: Aim | None = None) -> Difference:
    return Difference(f"held out: {what}, less {peer}", held_out(over), held_out(peer), aim, NATS)


@cache
def _words(corpus: Corpus) -> float:
    return float(given(corpus).learned.counts.sum())


def contend(name: str, task: TopicTask) -> Learned:
    """What one contender makes of documents; a rate counts only where it had all of their words."""
    with running(["-m", f"benchmarks.contenders.{name}", task.to_json()]) as process:
        found = Learned(**json.loads(output(process).splitlines()[-1]))
    if abs(found.words / _words(task.corpus) - 1) > 1e-9:
        raise Failed(f"{name}: {found.words!r} words of {_words(task.corpus)!r}")
    return found
