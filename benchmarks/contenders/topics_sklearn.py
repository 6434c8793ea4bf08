"""scikit-learn: `LatentDirichletAllocation.partial_fit`, a minibatch a call, on one core."""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse

from benchmarks.contenders.topic_task import Learned, TopicTask, received, tell
from benchmarks.corpus import ALPHA, KAPPA, TOLERANCE, TURNS, Corpus, given, score
from streaminfer.models.lda.documents import Documents
from streaminfer.variational.lda.topics import Topics


def table(documents: Documents, words: int) -> sparse.csr_matrix:
    return sparse.csr_matrix((documents.counts, documents.words, documents.starts), shape=(documents.n, words))


def model_of(corpus: Corpus) -> object:
    from sklearn.decomposition import LatentDirichletAllocation

    return LatentDirichletAllocation(
        n_components=corpus.topics, doc_topic_prior=ALPHA, topic_word_prior=corpus.concentration,
        learning_method="online", learning_decay=KAPPA, learning_offset=corpus.tau, batch_size=corpus.minibatch,
        total_samples=corpus.documents, evaluate_every=0, mean_change_tol=TOLERANCE, max_doc_update_iter=TURNS,
        n_jobs=1, random_state=0,
    )  # fmt: skip


def main(task: TopicTask) -> Learned:
    corpus, of = task.corpus, given(task.corpus)
    batches = [table(batch, corpus.words) for batch in of.learned.split(corpus.minibatch)]
    model_of(corpus).partial_fit(batches[0])  # type: ignore[attr-defined]  # nothing is loaded later
    model = model_of(corpus)
    began = time.perf_counter()
    for batch in batches:
        model.partial_fit(batch)  # type: ignore[attr-defined]
    seconds = time.perf_counter() - began
    rows = np.asarray(model.components_, dtype=np.float64).T  # type: ignore[attr-defined]
    assert model.n_batch_iter_ == len(batches) + 1  # type: ignore[attr-defined]
    words = sum(float(batch.sum()) for batch in batches)
    return Learned(of.learned.n, seconds, words, score(Topics(rows, rows.sum(axis=0)), of.held_out))


if __name__ == "__main__":
    tell(main(received()))
