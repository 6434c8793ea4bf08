"""Random numbers that depend on names, never on a process: a block of steps gets the same ones whoever computes it.

Philox is a function of a key and a counter. The key is a hash of (seed, purpose, unit, segment), and the number of the
block is in the counter. So no two uses share numbers, and a block is repeated without what came before it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import numpy as np


class Key(NamedTuple):
    """What randomness is for. A unit is a chain of a subposterior, a segment the events that it targets."""

    seed: int
    purpose: str
    unit: int = 0
    segment: int = 0

    def generator(self, block: int) -> np.random.Generator:
        """The numbers of one block: 2^128 of them before the next block's begin."""
        name = f"{self.seed}/{self.unit}/{self.segment}/{self.purpose}".encode()
        key = np.frombuffer(blake2b(name, digest_size=16).digest(), dtype="<u8").astype(np.uint64)
        return np.random.Generator(np.random.Philox(counter=[0, 0, block, 0], key=key))

    def of(self, purpose: str) -> Key:
        """The same names with another purpose."""
        return self._replace(purpose=purpose)
