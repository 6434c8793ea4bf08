"""The spec of topics that everybody's settings are taken from, and documents as records."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.corpus import ALPHA, KAPPA, Corpus, given, labels
from streaminfer.bus.protocol import Bus, Output, Topic
from streaminfer.models.lda.documents import Documents
from streaminfer.spec import Spec, parse_spec

FIELD = "words"
PARTITIONS = 4


def text_of(name: str, corpus: Corpus, shards: int = 1, method: str = "svi") -> str:
    """Steps of svi as everybody's; the vocabulary grows, as specs that say nothing have it."""
    prior = {"document": ALPHA, "topic": corpus.concentration}
    model = {"kind": "lda", "field": FIELD, "topics": corpus.topics, "shards": shards, "prior": prior}
    steps = {"population": corpus.documents, "step": {"tau": corpus.tau, "kappa": KAPPA}} if method == "svi" else {}
    inference = {"method": method, "minibatch": corpus.minibatch, **steps}
    return json.dumps({"name": name, "data": {"topic": corpus.topic}, "model": model, "inference": inference})


def spec_of(name: str, corpus: Corpus, method: str = "svi") -> Spec:
    return parse_spec(json.loads(text_of(name, corpus, method=method)))


def records(corpus: Corpus, documents: Documents) -> Iterator[bytes]:
    """A JSON object of words with their counts for each document."""
    named, starts = [label.decode() for label in labels(corpus)], documents.starts
    words, counts = documents.words.tolist(), documents.counts.astype(int).tolist()
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        bag = {named[word]: count for word, count in zip(words[begin:end], counts[begin:end], strict=True)}
        yield json.dumps({FIELD: bag}).encode()


def load(bus: Bus, corpus: Corpus) -> None:
    """Puts the documents on their topic, evenly over its partitions."""
    bus.create([Topic(corpus.topic, PARTITIONS)])
    if not sum(bus.ends(corpus.topic).values()):
        made = records(corpus, given(corpus).learned)
        bus.publish([Output(corpus.topic, value, partition=i % PARTITIONS) for i, value in enumerate(made)])
