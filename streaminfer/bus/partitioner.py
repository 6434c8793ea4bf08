"""Which partition a key belongs to: Kafka's default partitioner, so that both buses agree."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of `data` as a signed integer, as org.apache.kafka.common.utils.Utils.murmur2 has it."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = (int.from_bytes(data[at : at + 4], "little") * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    if whole < length:
        h = ((h ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    h ^= h >> 15
    return h - 0x100000000 if h & 0x80000000 else h


def partition_of(key: bytes, partitions: int) -> int:
    """(murmur2(key) & 0x7fffffff) mod `partitions`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions if partitions > 1 else 0
