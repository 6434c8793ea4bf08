"""Kafka's partitioner, against the vectors of its own tests."""

from __future__ import annotations

import pytest

from streaminfer.bus.partitioner import murmur2, partition_of

VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", VECTORS)
def test_murmur2_is_kafkas(key: bytes) -> None:
    assert murmur2(key) == VECTORS[key]


@pytest.mark.parametrize("key", VECTORS)
def test_the_partition_is_the_hash_without_its_sign(key: bytes) -> None:
    for partitions in (1, 2, 7, 100):
        assert partition_of(key, partitions) == (VECTORS[key] & 0x7FFFFFFF) % partitions
