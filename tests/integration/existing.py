"""A topic that another program fills, a spec that reads it, and the real services at work on it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streaminfer import Spec, load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Output, Topic
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.role import needed
from streaminfer.services import ROLES
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.dead_letters import DeadLetter


class Running:
    """The real services of a spec, here and now, a step at a time."""

    def __init__(self, spec: Spec, bus: Bus) -> None:
        self._spec, self._bus = spec, bus
        ids = schemas.prepare(spec, bus)
        names.check_data_topic(spec, bus)
        self._services = [role.build(spec, bus, CollectorRegistry(), None, ids) for role in needed(ROLES, spec)]
        self._follower = Follower(spec, bus)

    def until_idle(self, timeout: float = 120.0) -> Snapshot:
        """Steps until all that is on the topic now is in the posterior."""
        ends, deadline = self._bus.ends(names.data_topic(self._spec)), time.monotonic() + timeout
        while True:
            for service in self._services:
                service.step(0.01)
            self._follower.poll(0.0)
            found = self._follower.snapshot
            if found is not None and all(found.frontier.positions.get(index, -1) >= end for index, end in ends.items()):
                return found
            assert time.monotonic() < deadline, f"not all read: {found and found.frontier.positions} of {ends}"

    def close(self) -> None:
        for service in self._services:
            service.close()
        self._follower.close()


class Place:
    """A bus with an external topic `orders`, and a spec that reads it."""

    def __init__(self, folder: Path, url: str, **topic: Any) -> None:
        self.url, self.spec_file = url, folder / "spec.yaml"
        self.good: list[int] = []
        self.bad: list[bytes | None] = []
        self.topic = Topic("orders", **{"partitions": 3, **topic})
        self.bus = open_bus(url)
        self.bus.create([self.topic])
        self.write_spec()

    def write_spec(self, **data: Any) -> None:
        given = {"topic": "orders", "fields": {"k": "order.items"}, **data}
        text = {"name": "reader", "data": given, "model": {"kind": "poisson", "field": "k"}}
        self.spec_file.write_text(json.dumps({**text, "inference": {"minibatch": 16}}))
        self.spec = load_spec(self.spec_file)

    def event(self, count: int) -> bytes:
        """A good event of the owner's own making, remembered."""
        self.good.append(count)
        return json.dumps({"id": len(self.good), "order": {"items": count, "note": None}}).encode()

    def junk(self, value: bytes | None) -> bytes | None:
        """A bad one, remembered."""
        self.bad.append(value)
        return value

    def close(self) -> None:
        self.bus.close()

    def publish(self, *outputs: Output) -> None:
        self.bus.publish(list(outputs))

    @contextmanager
    def running(self) -> Iterator[Running]:
        made = Running(self.spec, self.bus)
        try:
            yield made
        finally:
            made.close()

    def letters(self) -> list[DeadLetter]:
        return list(Pending(self.spec, self.bus))

    def check(self, found: Snapshot) -> None:
        """The batch posterior of the good events, and the bad ones byte for byte."""
        assert found.n_events == len(self.good)
        assert (found.counts.n_lost, found.counts.n_rejected, found.counts.n_dead_lettered) == (0, 0, len(self.bad))
        natural = self.spec.model.posterior(found.payload.statistics).natural
        assert natural == pytest.approx([1 + sum(self.good), 1 + len(self.good)], rel=1e-9)
        assert Counter(letter.value for letter in self.letters()) == Counter(self.bad)
        assert {letter.topic for letter in self.letters()} <= {"orders"}
