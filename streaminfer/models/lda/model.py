"""Latent Dirichlet allocation (Blei, Ng, Jordan 2003): topics are distributions of words, documents mixtures of topics.

theta_d ~ Dirichlet(document), beta_k ~ Dirichlet(topic); each word of a document is of a topic z ~ theta_d and drawn
from beta_z. The algorithms, the fold of their statistics and the posterior of all words are in `variational.lda`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.events import Field
from streaminfer.models.lda.bagged import Bagged
from streaminfer.models.lda.bags import MAX_BYTES, MOST_WORDS
from streaminfer.models.lda.documents import Documents, Numbers
from streaminfer.models.lda.vocabulary import Vocabulary
from streaminfer.models.model import DomainError, Flags, Matrix, Vector
from streaminfer.models.options import Choice, Integer, Number, Option, Section, Text

INCREMENT_BYTES: Final = 64 << 20
"""What all words of one increment have at most; a document's must fit."""
_PLAIN: Final = Number(minimum=1e-6, maximum=1e6)


def word_bytes(topics: int, label: int) -> int:
    """What an increment has of a word: the label and its length, three numbers, and the statistics."""
    return 2 + label + 8 * (3 + topics)


_PRIOR = Section(
    [
        Option(
            "document",
            _PLAIN,
            "concentration of a document's topics; a smaller one means fewer topics in a document",
            0.1,
        ),
        Option("topic", _PLAIN, "concentration of a topic's words; a smaller one means fewer words in a topic", 0.01),
    ]
)


@dataclass(frozen=True)
class Lda:
    """Statistics are K numbers for each word: how often it was drawn from each topic, expected.

    What is asked of rows here is asked of words. There are as many as the vocabulary has, and only those of a minibatch
    are ever needed at a time.
    """

    kind: ClassVar[str] = "lda"
    methods: ClassVar[tuple[str, ...]] = ("svb", "svi", "memoized")
    exactness: ClassVar[str] = "approximate"
    needs_base: ClassVar[bool] = True
    options: ClassVar[Section] = Section(
        [
            Option(
                "field", Text(), "the field with a document: a list of words, or an object of words with their counts"
            ),
            Option("topics", Integer(2, 1000), "how many topics there are", 20),
            Option(
                "vocabulary",
                Vocabulary(),
                "The words that count: a list, or a file with one a line, relative to the spec; all others are passed "
                "over. Not set means all words, as they are met.",
                None,
            ),
            Option("shards", Integer(1, 256), "Into how many parts the words are divided; each has a master.", 1),
            Option("seed", Integer(0, 2**32 - 1), "chooses the start, which all workers share", 0),
            Option(
                "local",
                Choice(("mean", "bound")),
                "What documents are fitted to: the topics' mean probabilities of words, or those of the variational "
                "bound, which lock rare words out of topics.",
                "mean",
            ),
            Option("prior", _PRIOR, "symmetric Dirichlet priors of documents and of topics", {}),
        ]
    )

    name: str
    topics: int
    vocabulary: tuple[str, ...] | None
    shards: int
    seed: int
    local: str
    alpha: float
    concentration: float

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Lda:
        prior, words = options["prior"], options["vocabulary"]
        words = None if words is None else tuple(sorted(words, key=str.encode))
        return (BoundLda if options["local"] == "bound" else Lda)(
            options["field"], options["topics"], words, options["shards"], options["seed"],
            options["local"], prior["document"], prior["topic"],
        )  # fmt: skip

    @property
    def by_mean(self) -> bool:
        """Whether documents are fitted to the topics' mean probabilities."""
        return self.local == "mean"

    @property
    def most_words(self) -> int:
        """Different words that a document may have, so that an increment can hold them."""
        return min(MOST_WORDS, INCREMENT_BYTES // word_bytes(self.topics, MAX_BYTES) - 1)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Field(self.name, "tokens", frozenset(self.vocabulary or ()), most=self.most_words),)

    @property
    def inputs(self) -> tuple[Field, ...]:
        return self.fields

    @property
    def outputs(self) -> tuple[str, ...]:
        return ()

    @cached_property
    def known(self) -> frozenset[bytes] | None:
        """The words of a fixed vocabulary in UTF-8."""
        return None if self.vocabulary is None else frozenset(word.encode() for word in self.vocabulary)

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    @property
    def size(self) -> int:
        """Numbers of the statistics of one word."""
        return self.topics

    def empty(self) -> Vector:
        return np.zeros(self.topics)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Bagged
    ) -> list[Bagged]:
        """Documents of the same lengths: topics of each from its prior, then words of topics (k, K, W).

        Words are those of the vocabulary, in the order of their bytes; raises ValueError if there is none.
        """
        if self.vocabulary is None:
            raise ValueError("documents are only simulated of a fixed vocabulary: the model has none")
        labels = tuple(word.encode() for word in self.vocabulary)
        lengths = events.documents.lengths.astype(np.intp)
        return [Bagged(labels, _documents(rng, topics, lengths, self.alpha)) for topics in parameters["topics"]]

    def merge(self, a: Vector, b: Vector) -> Vector:
        return a + b

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        each = weight[..., None] if isinstance(weight, np.ndarray) else weight
        return np.asarray(statistics * each, dtype=np.float64)

    def proper(self, statistics: Matrix) -> Flags:
        if statistics.shape[1:] != (self.size,):
            raise DomainError(f"rows of statistics have shape {statistics.shape[1:]}, not ({self.size},)")
        return np.asarray((np.isfinite(statistics) & (statistics >= 0)).all(axis=1))

    def natural_of(self, rows: Matrix) -> Matrix:
        """lambda = topic + rows, the parameters of the topics' Dirichlet distributions (K, m)."""
        if not self.proper(rows).all():
            raise DomainError("statistics of a word are negative or not finite")
        return self.concentration + rows.T


@dataclass(frozen=True)
class BoundLda(Lda):
    """With documents that are fitted to the variational bound, as Hoffman, Blei and Bach (2010) do."""

    exactness: ClassVar[str] = "bound"


def _documents(rng: np.random.Generator, topics: Matrix, lengths: Numbers, alpha: float) -> Documents:
    """Given the topics' distributions of words (K, W): one document after the other, so memory is that of their words.

    A document's words are multinomial with the mixture of its topics; logs of Gammas, as a small alpha gives zeros.
    """
    found, starts = [], [0]
    for length in lengths:
        shares = np.log(rng.standard_gamma(alpha + 1, len(topics))) - rng.standard_exponential(len(topics)) / alpha
        mixed = np.exp(shares - shares.max()) @ topics
        counts = rng.multinomial(length, mixed / mixed.sum())
        words = np.flatnonzero(counts)
        found.append((words, counts[words]))
        starts.append(starts[-1] + len(words))
    words, counts = (np.concatenate([np.zeros(0), *(each[i] for each in found)]) for i in (0, 1))
    return Documents(np.array(starts, dtype=np.intp), words.astype(np.intp), counts.astype(np.float64))
