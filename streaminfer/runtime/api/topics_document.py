"""Topics as JSON: all numbers if they are few, else the likeliest words of each topic."""

from __future__ import annotations

from typing import Any, Final

from streaminfer.variational.lda.posterior import AnyTopics

MOST_NUMBERS: Final = 100_000
"""Topics times words; beyond that they are too many to read as text, and a document would have many megabytes."""
TOP: Final = 20


def truncated(topics: AnyTopics) -> bool:
    return topics.mean.size > MOST_NUMBERS


def parameters(topics: AnyTopics) -> dict[str, Any]:
    """The section `parameters` of the document; `top` are each topic's likeliest words, if not all are shown."""
    if truncated(topics):
        return {"topics": {"top": _pairs(topics, scaled=False)}, "vocabulary": None, "n_words": len(topics.words)}
    moments = topics.moments()["topics"]
    return {
        "topics": {"mean": moments.mean.tolist(), "sd": moments.sd.tolist()},
        "vocabulary": topics.vocabulary,
        "n_words": len(topics.words),
    }


def natural(topics: AnyTopics) -> Any:
    """The parameters of the Dirichlets, a list for each topic, or those of the likeliest words; draws have none."""
    if not topics.natural.size:
        return None
    return {"top": _pairs(topics, scaled=True)} if truncated(topics) else topics.natural.tolist()


def _pairs(topics: AnyTopics, scaled: bool) -> list[list[list[Any]]]:
    totals = topics.natural.sum(axis=1).tolist() if scaled else [1.0] * len(topics.mean)
    found = zip(topics.top(TOP), totals, strict=True)
    return [[[word, p * total] for word, p in words] for words, total in found]
