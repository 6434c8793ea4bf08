"""A member of the Kafka bus that the group has expelled, as after an outage, joins again however seldom it polls."""

from __future__ import annotations

import time
import uuid

import pytest

from streaminfer.bus.broker.settings import Address
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Fenced, Partition, Poll, Position, Topic

SESSION_S = 3.0
PAUSE_S = 0.5
"""Longer than a member with an instance name goes without asking whether it still is one."""
P0 = Partition("t", 0)


@pytest.mark.parametrize("instance", [pytest.param(None, marks=pytest.mark.long), "one"])
def test_an_expelled_member_joins_again(kafka_address: str, instance: str | None) -> None:
    with KafkaBus(Address((kafka_address,), uuid.uuid4().hex[:8]), session_s=SESSION_S) as bus:
        bus.create([Topic("t", 1)])
        with bus.member("g", ["t"], instance) as member:
            polls: list[Poll] = []

            def poll_until(reported: str) -> None:
                deadline = time.monotonic() + 10 * SESSION_S
                while not any(P0 in getattr(poll, reported) for poll in polls):
                    assert time.monotonic() < deadline, f"never {reported}: {polls}"
                    try:
                        polls.append(member.poll(0.1))
                    except Fenced:
                        polls.append(Poll())  # services begin again, and poll
                    time.sleep(PAUSE_S)

            poll_until("assigned")
            member.seek(P0, 0)
            time.sleep(3 * SESSION_S)
            polls.clear()
            poll_until("revoked")
            poll_until("assigned")
            member.seek(P0, 0)
            member.commit({P0: Position(0)})
