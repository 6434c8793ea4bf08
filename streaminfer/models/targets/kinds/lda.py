"""Topics of documents: K distributions of W words, where W is fixed by a vocabulary.

No density of a document is known: its topics would have to be summed out. So there is neither a likelihood nor theta
here, and only a method that draws the topics of tokens fits (see `streaminfer.sampling.kernels.topics`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, Final, Self

import numpy as np

from streaminfer.models.events import Field
from streaminfer.models.lda.bagged import Bagged
from streaminfer.models.lda.model import Lda as Model
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import corpus

LONGEST: Final = 100_000
"""Words of a document, repeated ones as often as they are there: each of them has a topic that is drawn."""


class Lda:
    """A place of a chain is one weight above 0 for each topic and word, (K W,)."""

    reads_documents: ClassVar[bool] = True
    columns: ClassVar[int] = corpus.COLUMNS

    def __init__(self, model: Model) -> None:
        self.model = model
        self.alpha, self.concentration = model.alpha, model.concentration

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(model)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Those of the model, of documents that are not too long."""
        return tuple(field._replace(longest=LONGEST) for field in self.model.fields)

    @cached_property
    def words(self) -> tuple[bytes, ...]:
        """In the order of their bytes."""
        return tuple(word.encode() for word in self.model.vocabulary or ())

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {word: i for i, word in enumerate(self.words)}

    @property
    def dimension(self) -> int:
        return self.model.topics * len(self.words)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"topics": (self.model.topics, len(self.words))}

    def rows(self, events: Bagged) -> Matrix:
        """See `corpus`; words are numbered as the vocabulary has them."""
        places = np.array([self._places[label] for label in events.labels], dtype=np.intp)
        documents = events.documents
        return corpus.rows_of(documents._replace(words=places[documents.words]))

    def counts(self, rows: Matrix) -> Vector:
        """How often each word occurs, (W,)."""
        words = rows[:, corpus.WORD].astype(np.intp)
        return np.bincount(words, rows[:, corpus.COUNT], len(self.words)).astype(np.float64)
