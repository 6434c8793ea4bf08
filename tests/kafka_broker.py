"""Real Kafka brokers for tests (see tests/brokers). Without one, tests fail: what is not tried is not proved."""

from __future__ import annotations

from tests.brokers.jars import NoBroker
from tests.brokers.local import Cluster, Listener, LocalBroker, local_broker, three_brokers
from tests.brokers.providers import any_broker

__all__ = ["Cluster", "Listener", "LocalBroker", "NoBroker", "any_broker", "local_broker", "three_brokers"]
