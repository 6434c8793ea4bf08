"""The start of topics: draws that differ by topic, as no update ever leaves equal topics.

The draw of a word depends on the seed and the word alone. So workers that meet the words in another order, or only
some of them, start from the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix

SHAPE: Final = 100.0
"""The shape of the Gamma(100, 1/100) draws of Hoffman et al. (2010): mean 1, sd 0.1."""
MOST_KEPT: Final = 8_000_000
"""Numbers of draws that are kept, 64 MB."""
MOST_WORDS: Final = 250_000
"""Words whose draws are kept, about 40 MB more."""
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)


class Starts:
    """The draws of K topics by a seed; those of words are kept, as the next minibatches have them again."""

    def __init__(self, k: int, seed: int) -> None:
        self._k, self._seed = k, seed
        self._rows: dict[bytes, int] = {}
        self._kept: Matrix = np.empty((0, k))

    def of(self, words: Sequence[bytes]) -> Matrix:
        """`start` of words."""
        new = [word for word in words if word not in self._rows]
        known = len(self._rows)
        if new and known + len(new) > min(MOST_WORDS, MOST_KEPT // self._k):
            return start(words, self._k, self._seed)
        if new:
            if known + len(new) > len(self._kept):
                self._kept = np.resize(self._kept, (2 * (known + len(new)), self._k))
            self._kept[known : known + len(new)] = start(new, self._k, self._seed)
            self._rows.update({word: known + i for i, word in enumerate(new)})
        return self._kept[np.fromiter(map(self._rows.__getitem__, words), dtype=np.intp, count=len(words))]


def start(words: Sequence[bytes], k: int, seed: int) -> Matrix:
    """Gamma(100, 1/100) draws (m, K), to stand for the statistics of words while there are none.

    The 64-bit hash of (seed, word) and the topic's number give 53 bits (splitmix64: Steele, Lea, Flood 2014). These
    give a standard normal z, and z gives the draw (1 - 1/900 + z/30)^3. That is Gamma's quantile to 2e-5 within 4 sd
    (Wilson, Hilferty 1931).
    """
    from scipy.special import ndtri

    key = b"%d" % seed
    hashes = b"".join(blake2b(word, digest_size=8, key=key).digest() for word in words)
    states = np.frombuffer(hashes, dtype="<u8")[:, None] + np.arange(1, k + 1, dtype=np.uint64) * _STEP
    uniforms = ((_mixed(states) >> np.uint64(11)) + 0.5) * 2.0**-53
    third = 1 / (9 * SHAPE)
    return np.asarray((1 - third + ndtri(uniforms) * np.sqrt(third)) ** 3, dtype=np.float64)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
