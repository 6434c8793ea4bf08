"""The Kafka bus: every error of the client is one of the bus."""

from __future__ import annotations

import logging
import shlex

import pytest
from kafka import errors

from streaminfer.bus.broker.errors import TlsRefused, translate, translated
from streaminfer.bus.broker.needs import Need, Needs
from streaminfer.bus.protocol import BusError, Fenced, Forbidden, Replaced, TooLarge, Unavailable, UnknownTopic

TABLE = {
    Unavailable: [
        errors.KafkaTimeoutError, errors.KafkaConnectionError, errors.NodeNotReadyError,
        errors.NotLeaderForPartitionError,
        errors.CoordinatorNotAvailableError, errors.NotEnoughReplicasError, errors.OutOfOrderSequenceNumberError,
        errors.UnknownError, errors.KafkaError,
    ],
    Fenced: [
        errors.ProducerFencedError, errors.InvalidProducerEpochError, errors.CommitFailedError,
        errors.IllegalGenerationError, errors.UnknownMemberIdError, errors.RebalanceInProgressError,
    ],
    Replaced: [errors.FencedInstanceIdError],
    TooLarge: [errors.MessageSizeTooLargeError, errors.RecordListTooLargeError],
    UnknownTopic: [errors.UnknownTopicOrPartitionError],
    Forbidden: [
        errors.TopicAuthorizationFailedError, errors.GroupAuthorizationFailedError,
        errors.TransactionalIdAuthorizationFailedError, errors.ClusterAuthorizationFailedError,
    ],
    BusError: [
        errors.SaslAuthenticationFailedError,
        errors.KafkaConfigurationError, errors.InvalidReplicationFactorError, errors.InvalidSessionTimeoutError,
        errors.UnsupportedSaslMechanismError, TlsRefused,
    ],
}  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs"), [(ours, theirs) for ours, many in TABLE.items() for theirs in many])
def test_each_error_has_its_kind(ours: type[BusError], theirs: type[Exception]) -> None:
    found = translate(theirs("details"), "trying")
    assert type(found) is ours
    assert str(found).startswith("trying: ")
    assert theirs.__name__ in str(found)


def test_the_cause_inside_a_later_failure_decides() -> None:
    later = errors.KafkaError("Cannot perform send because of a failure", errors.ProducerFencedError())
    assert type(translate(later, "trying")) is Fenced


def test_only_errors_of_the_client_and_the_network_are_translated() -> None:
    with pytest.raises(Unavailable, match="trying"), translated("trying"):
        raise ConnectionRefusedError("no")
    with pytest.raises(ValueError, match="mine"), translated("trying"):
        raise ValueError("mine")


def test_the_client_never_logs_records() -> None:
    assert logging.getLogger("kafka").getEffectiveLevel() >= logging.WARNING
    assert logging.getLogger("kafka.producer.kafka").getEffectiveLevel() >= logging.WARNING


NEEDS = Needs(
    [Need("Write", "topic", "a"), Need("Write", "topic", "b"), Need("Read", "group", "g")], "User:ann", "broker:9092"
)


@pytest.mark.parametrize(
    ("error", "missing", "line"),
    [
        (errors.TopicAuthorizationFailedError({"b"}), "may not Write the topic 'b'", "--operation Write --topic b"),
        (errors.TopicAuthorizationFailedError(), "may not Write the topic 'a'", "--operation Write --topic a"),
        (errors.GroupAuthorizationFailedError("g"), "may not Read the group 'g'", "--operation Read --group g"),
        (errors.KafkaError(errors.GroupAuthorizationFailedError()), "the group 'g'", "--operation Read --group g"),
    ],
)
def test_a_missing_right_is_named_with_the_line_that_grants_it(error: Exception, missing: str, line: str) -> None:
    found = translate(error, "committing", NEEDS)
    assert isinstance(found, Forbidden)
    assert missing in str(found)
    assert f"kafka-acls --bootstrap-server broker:9092 --add --allow-principal User:ann {line}" in str(found)


@pytest.mark.parametrize("user", ["User:CN=ann,O=Ann & Sons", "User:$(reboot)", "User:a'; reboot #"])
def test_the_line_is_one_command_for_a_shell_whoever_the_user_is(user: str) -> None:
    needs = Needs([Need("Read", "group", "g")], user, "[::1]:9092")
    line = str(translate(errors.GroupAuthorizationFailedError("g"), "committing", needs)).partition("Grant it with: ")[
        2
    ]
    words = shlex.split(line)
    assert words[words.index("--allow-principal") + 1] == user
    assert words[-2:] == ["--group", "g"]


def test_answers_of_a_broker_are_not_repeated() -> None:
    text = "Request 'CreateTopicsRequest_v5(secret)' failed with response 'CreateTopicsResponse_v5(secret)'."
    for kind in (errors.PolicyViolationError, errors.ClusterAuthorizationFailedError, errors.KafkaError):
        assert "secret" not in str(translate(kind(text), "creating"))
