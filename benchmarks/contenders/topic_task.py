"""What a topic model is told, and what it tells: one JSON document each way."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.corpus import Corpus


@dataclass(frozen=True)
class TopicTask:
    """Who learns may leave numba out (`compiled`), or score every minibatch before it is absorbed, as workers do.

    Of the contenders ours alone has more than one `method`.
    """

    corpus: Corpus
    compiled: bool = True
    scored: bool = False
    method: str = "svi"

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Learned:
    """Documents of one pass in N seconds, `local_s` of them in the documents' own loop where that is known.

    `words` are those that the contender has counted, `nats` its score.
    """

    documents: int
    seconds: float
    words: float
    nats: float
    local_s: float = float("nan")

    @property
    def rate(self) -> float:
        """Documents a second."""
        return self.documents / self.seconds


def received() -> TopicTask:
    """The task in this process's first argument."""
    given: Mapping[str, Any] = json.loads(sys.argv[1])
    return TopicTask(**{**given, "corpus": Corpus(**given["corpus"])})


def tell(learned: Learned) -> None:
    print(json.dumps(asdict(learned)), flush=True)
