"""Kafka's errors as the bus's: no caller ever sees one of kafka-python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors

from streaminfer.bus.broker.needs import NONE, Needs
from streaminfer.bus.protocol import BusError, Fenced, Forbidden, Replaced, TooLarge, Unavailable, UnknownTopic


class TlsRefused(errors.KafkaError):  # type: ignore[misc]  # kafka-python has no types
    """One side of a connection does not trust the other's certificate; kafka-python has no error of its own for it."""


_TABLE: tuple[tuple[tuple[type[Exception], ...], type[BusError], str], ...] = (
    ((errors.FencedInstanceIdError,), Replaced, "another process has joined under this instance name"),
    (
        (
            errors.ProducerFencedError,
            errors.InvalidProducerEpochError,
            errors.InvalidProducerIdMappingError,
            errors.CommitFailedError,
            errors.IllegalGenerationError,
            errors.UnknownMemberIdError,
            errors.RebalanceInProgressError,
        ),
        Fenced,
        "a newer owner has taken over",
    ),
    (
        (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError),
        TooLarge,
        "the broker does not accept a record of that size: increase max.message.bytes of the topic (kafka-configs)",
    ),
    ((errors.UnknownTopicOrPartitionError, errors.InvalidTopicError), UnknownTopic, "no such topic or partition"),
    (
        (errors.AuthorizationError,),
        Forbidden,
        "this user may not do that: `streaminfer acls SPEC` prints the rights that it needs",
    ),
    (
        (errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError, errors.IllegalSaslStateError),
        BusError,
        "the broker refuses the log-in: check STREAMINFER_KAFKA_SASL_MECHANISM, _USERNAME, _PASSWORD or _TOKEN_FILE",
    ),
    (
        (TlsRefused,),
        BusError,
        "TLS was refused: check STREAMINFER_KAFKA_SECURITY, _CA_FILE (the broker's), _CERT_FILE and _KEY_FILE "
        "(this client's)",
    ),
    (
        (
            errors.KafkaConfigurationError,
            errors.InvalidConfigurationError,
            errors.InvalidReplicationFactorError,
            errors.InvalidSessionTimeoutError,
            errors.InvalidTransactionTimeoutError,
            errors.PolicyViolationError,
            errors.UnsupportedVersionError,
        ),
        BusError,
        "the broker does not allow this setting: check the broker's configuration and STREAMINFER_KAFKA_*",
    ),
)


def translate(error: Exception, what: str, needs: Needs = NONE) -> BusError:
    """The bus's error for one of kafka-python's; what is not known to be final may pass, so it is Unavailable.

    A right that is missing is one of `needs`.
    """
    need = needs.of(error)
    if need is not None:
        return Forbidden(f"{what}: {needs.told(need)}")
    for kinds, ours, hint in _TABLE:
        if isinstance(error, kinds):
            return ours(f"{what}: {hint} ({_text(error)})")
    # A send that comes after a failure hides the failure in its arguments.
    for cause in (*error.args, error.__cause__):
        if isinstance(cause, errors.KafkaError):
            return translate(cause, what, needs)
    return Unavailable(f"{what}: {_text(error)}")


@contextmanager
def translated(what: str, needs: Needs = NONE) -> Iterator[None]:
    """Raises the bus's errors for those of kafka-python. `what` is what was tried."""
    try:
        yield
    except (errors.KafkaError, OSError) as error:
        raise translate(error, what, needs) from error


def _text(error: Exception) -> str:
    """What an error says, without a request or an answer of the broker that it repeats."""
    name, text = type(error).__name__, str(error)
    if "Request" in text.removeprefix(name) or "Response" in text.removeprefix(name):
        return name
    return text if text.startswith(name) else f"{name}: {text}" if text else name
