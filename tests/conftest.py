"""What tests of every folder may need: a real Kafka broker, once for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka_broker import any_broker


@pytest.fixture(scope="session")
def kafka_address() -> Iterator[str]:
    """Started by the first test that asks; names on it must be one's own."""
    with any_broker() as address:
        yield address
