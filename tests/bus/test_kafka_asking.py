"""The Kafka bus: questions that may be repeated are, for a while, and to a new client if the cluster has moved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from kafka import errors

from streaminfer.bus.broker import connection as module
from streaminfer.bus.broker.connection import MOVED, RETRY_S, Connection
from streaminfer.bus.broker.settings import Address, Settings
from streaminfer.bus.protocol import BusError, Unavailable

DEADLINE_S = 10.0


class Clock:
    """In place of the module `time`: only who sleeps grows older."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Admin:
    """In place of an admin client: says which of them it is, and whether it was closed."""

    def __init__(self, number: int) -> None:
        self.number, self.closed = number, False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def admins(monkeypatch: pytest.MonkeyPatch) -> list[Admin]:
    """All admin clients that were opened."""
    found: list[Admin] = []

    def opened(kind: type, **options: object) -> Admin:
        found.append(Admin(len(found)))
        return found[-1]

    monkeypatch.setattr(module, "opened", opened)
    return found


@pytest.fixture
def connection(admins: list[Admin], clock: Clock) -> Iterator[Connection]:
    made = Connection(Address(("nowhere:1",), ""), Settings(), session_s=10.0, deadline_s=DEADLINE_S)
    yield made
    made.close()


class Question:
    """Fails the first times, then answers with the number of the client that it was put to."""

    def __init__(self, error: type[Exception], failures: int) -> None:
        self._error, self._failures, self.asked = error, failures, count()

    def __call__(self, admin: Admin) -> int:
        assert not admin.closed
        if next(self.asked) < self._failures:
            raise self._error
        return admin.number


@pytest.mark.parametrize("error", MOVED)
def test_a_client_that_asked_the_wrong_broker_is_replaced(
    connection: Connection, admins: list[Admin], error: type[Exception]
) -> None:
    assert connection.ask("asking", Question(error, failures=1)) == 1
    assert [admin.closed for admin in admins] == [True, False]


def test_a_controller_without_an_address_is_one_of_these() -> None:
    assert errors.UnknownBrokerIdError in MOVED


def test_another_passing_error_is_asked_again_of_the_same_client(connection: Connection, admins: list[Admin]) -> None:
    assert connection.ask("asking", Question(errors.RequestTimedOutError, failures=2)) == 0
    assert [admin.closed for admin in admins] == [False]


@pytest.mark.parametrize("error", [*MOVED, errors.RequestTimedOutError])
def test_an_error_that_does_not_pass_is_told_in_time(
    connection: Connection, admins: list[Admin], clock: Clock, error: type[Exception]
) -> None:
    question = Question(error, failures=10**6)
    with pytest.raises(Unavailable, match=f"asking: .*{error.__name__}"):
        connection.ask("asking", question)
    assert next(question.asked) > 1, "it was not asked again"
    assert DEADLINE_S / 2 - 2 * RETRY_S < clock.now <= DEADLINE_S / 2  # the other half is for the last question
    assert all(admin.closed for admin in admins), "the next question would be put to a client that failed"


def test_an_error_that_cannot_pass_is_told_at_once(connection: Connection, admins: list[Admin]) -> None:
    question = Question(errors.TopicAuthorizationFailedError, failures=10**6)
    with pytest.raises(BusError, match="TopicAuthorizationFailedError"):
        connection.ask("asking", question)
    assert next(question.asked) == 1
    assert admins[0].closed
