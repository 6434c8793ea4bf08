"""The Kafka bus: a broker that has not heard of a topic yet is asked again, for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streaminfer.bus.broker import topics as module
from streaminfer.bus.broker.names import Names
from streaminfer.bus.broker.needs import NONE, Kind, Need, Needs
from streaminfer.bus.broker.topics import SEEN_WITHIN_S, Catalog
from streaminfer.bus.protocol import BusError, UnknownTopic
from tests.bus.test_kafka_asking import Clock

SETTINGS = {
    "cleanup.policy": {"value": "delete"},
    "retention.ms": {"value": "-1"},
    "max.message.bytes": {"value": "1179648"},
}


class Lagging:
    """In place of a connection and its admin client: says of a topic what it is told to, in turn."""

    def __init__(self, known: list[bool], shown: list[bool]) -> None:
        self.names = Names("n")
        self._known, self._shown = known, shown

    def check_open(self) -> None:
        """Never closed."""

    def needs(self, operation: str, kind: Kind, *names: str) -> Needs:
        return Needs([Need(operation, kind, name) for name in names], "User:me", "broker:9092")

    def ask(self, what: str, question: Callable[[Any], Any], needs: Needs = NONE) -> Any:
        return question(self)

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        code = 0 if _next(self._known) else 3
        return [{"name": name, "error_code": code, "partitions": [{}], "topic_id": "id"} for name in names]

    def describe_configs(self, resources: list[Any], config_filter: str) -> dict[str, Any]:
        values = SETTINGS if _next(self._shown) else {}
        return {"topic": {resource.name: values for resource in resources}}


def _next(answers: list[bool]) -> bool:
    return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def catalog(known: list[bool], shown: list[bool]) -> Catalog:
    return Catalog(Lagging(known, shown))  # type: ignore[arg-type]


def test_settings_that_a_broker_does_not_know_yet_are_asked_for_again(clock: Clock) -> None:
    assert catalog([True], [False, False, True]).fresh("t").partitions == 1


def test_settings_that_stay_hidden_are_an_error_that_names_the_right(clock: Clock) -> None:
    with pytest.raises(
        BusError, match=r"'t': this user may not DescribeConfigs the topic 't'. Grant it with: kafka-acls"
    ):
        catalog([True], [False]).fresh("t")
    assert SEEN_WITHIN_S < clock.now < SEEN_WITHIN_S + 1


def test_a_known_topic_that_another_broker_has_not_heard_of_is_asked_for_again(clock: Clock) -> None:
    topics = catalog([True, False, False, True], [True])
    topics.fresh("t")
    assert topics.count("t") == 1


def test_a_known_topic_that_stays_away_is_unknown(clock: Clock) -> None:
    topics = catalog([True, False], [True])
    topics.fresh("t")
    with pytest.raises(UnknownTopic, match="'t' does not exist"):
        topics.count("t")
    assert SEEN_WITHIN_S < clock.now < SEEN_WITHIN_S + 1


def test_a_topic_that_nobody_has_seen_is_unknown_at_once(clock: Clock) -> None:
    with pytest.raises(UnknownTopic, match="'t' does not exist"):
        catalog([False], [True]).count("t")
    assert clock.now == 0.0
