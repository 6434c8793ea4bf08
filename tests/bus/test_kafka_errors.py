"""The Kafka bus: every error of the client is one of the bus."""

from __future__ import annotations

import logging

import pytest
from kafka import errors

from streaminfer.bus.broker.errors import TlsRefused, translate, translated
from streaminfer.bus.protocol import BusError, Fenced, Replaced, TooLarge, Unavailable, UnknownTopic

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
    BusError: [
        errors.TopicAuthorizationFailedError, errors.GroupAuthorizationFailedError,
        errors.TransactionalIdAuthorizationFailedError, errors.SaslAuthenticationFailedError,
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
