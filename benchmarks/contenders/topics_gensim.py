"""gensim: `LdaModel.update` with the whole corpus, from which it takes its minibatches and the number of documents."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.contenders.topic_task import Learned, TopicTask, received, tell
from benchmarks.corpus import ALPHA, KAPPA, TOLERANCE, TURNS, Corpus, given, score
from streaminfer.models.lda.documents import Documents
from streaminfer.variational.lda.topics import Topics


def bags(documents: Documents) -> list[list[tuple[int, int]]]:
    words, counts, starts = documents.words.tolist(), documents.counts.astype(int).tolist(), documents.starts.tolist()
    return [list(zip(words[begin:end], counts[begin:end], strict=True)) for begin, end in pairwise(starts)]


def model_of(corpus: Corpus) -> Any:
    from gensim.models import LdaModel

    # Its steps are counted from 0, so the first of all has the size of ours with one more to the offset.
    return LdaModel(
        num_topics=corpus.topics, id2word={word: str(word) for word in range(corpus.words)}, alpha=ALPHA,
        eta=corpus.concentration, chunksize=corpus.minibatch, passes=1, update_every=1, decay=KAPPA,
        offset=corpus.tau + 1, eval_every=None, iterations=TURNS, gamma_threshold=TOLERANCE, random_state=0,
    )  # fmt: skip


def main(task: TopicTask) -> Learned:
    corpus, of = task.corpus, given(task.corpus)
    made = bags(of.learned)
    model_of(corpus).update(made[: corpus.minibatch])  # nothing is loaded later
    model = model_of(corpus)
    began = time.perf_counter()
    model.update(made)
    seconds = time.perf_counter() - began
    assert model.num_updates == model.state.numdocs == of.learned.n
    rows = np.asarray(model.state.get_lambda(), dtype=np.float64).T
    words = float(sum(count for bag in made for _, count in bag))
    return Learned(of.learned.n, seconds, words, score(Topics(rows, rows.sum(axis=0)), of.held_out))


if __name__ == "__main__":
    tell(main(received()))
