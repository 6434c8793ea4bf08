"""On a broker that checks rights: those that `acls` prints are enough, each is needed, and others are denied."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streaminfer.bus.broker.settings import Address, settings_from
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Forbidden, Output, Unavailable
from streaminfer.runtime import names, provide
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.loading.produce import Loader, check_spec
from streaminfer.runtime.monitoring import once
from streaminfer.runtime.rights import Grant, rights
from streaminfer.runtime.running import process
from streaminfer.runtime.service import NotYet, Service
from streaminfer.services import ROLES
from streaminfer.spec import Spec, parse_spec
from tests.bus.secured import PASSWORD, USER, Secured

pytestmark = pytest.mark.xdist_group("security")
LONG = pytest.mark.long

COIN: dict[str, Any] = {
    "name": "coin", "data": {"partitions": 1}, "model": {"kind": "bernoulli", "field": "y"},
    "inference": {"minibatch": 10, "linger_ms": 0, "snapshot_ms": 20},
}  # fmt: skip
EVENTS = 40
SECRET = "their-own-4711"  # noqa: S105 (of users that are made here)
PATIENCE_S = 60.0
WORK_S = 6.0
"""Seconds for a service to do all that it does; an error comes sooner."""


class Place:
    """The programs of a spec on the broker, each as a user of its own with the rights that `acls` prints."""

    def __init__(self, secured: Secured, folder: Path, name: str, log: pytest.LogCaptureFixture) -> None:
        self.log = log
        self.secured, self.spec = secured, parse_spec({**COIN, "name": name})
        self.file, self.spec_file = folder / "coin.csv", folder / "coin.yaml"
        self.file.write_text("y\n" + "1\n" * (EVENTS - 1) + "bad\n")
        self.spec_file.write_text(json.dumps({**COIN, "name": name}))
        self.grants: dict[str, list[Grant]] = {}
        for grant in rights(self.spec, ROLES):
            self.grants.setdefault(grant.role, []).append(grant)
        for role, grants in self.grants.items():
            secured.add_user(self.user(role), SECRET)
            secured.allow(self.user(role), grants)

    def user(self, role: str) -> str:
        return f"{self.spec.name}-{role}"

    def bus(self, role: str) -> KafkaBus:
        return self.bus_of(self.user(role), SECRET)

    def bus_of(self, user: str, password: str) -> KafkaBus:
        settings = settings_from(self.secured.settings(user, PASSWORD=password))
        return KafkaBus(Address((self.secured.addresses["scram"],)), settings, session_s=6, deadline_s=10)

    def make_topics(self) -> None:
        with self.bus("topics") as bus:
            names.create_topics(self.spec, bus)

    def service(self, role: str, bus: KafkaBus) -> Service:
        return process._built(ROLES[role], self.spec, bus, None)[0]

    def produce(self) -> None:
        with self.bus("produce") as bus:
            provide.topics(self.spec, bus, "produce")
            check_spec(self.spec, bus)
            for _ in Loader(self.spec, bus, self.file).run():
                pass

    def n_events(self) -> int:
        """As a subscriber sees it."""
        with self.bus("subscribe") as bus:
            shards = Shards(self.spec, bus)
            found = shards.catch_up()
            shards.close()
        return 0 if found is None else found.n_events


def step_until(services: Sequence[Service], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "nothing has come of it"
        for service in services:
            service.step(0.05)


@pytest.fixture
def expecting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMINFER_TOPICS", "expect")


@pytest.fixture
def place(
    secured: Secured,
    tmp_path: Path,
    expecting: None,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> Place:
    return Place(secured, tmp_path, f"c{abs(hash(request.node.name)) % 10**8}", caplog)


def test_exactly_the_rights_of_acls_are_enough(place: Place) -> None:
    with place.bus("svb-worker") as bus, pytest.raises(NotYet) as caught:
        place.service("svb-worker", bus)
    assert f"topic {place.spec.name}.events is missing, topic {place.spec.name}.increments is" in str(caught.value)
    place.make_topics()
    place.produce()
    buses = {role: place.bus(role) for role in ("svb-worker", "master", "monitor")}
    try:
        services = [place.service(role, bus) for role, bus in buses.items()]
        step_until(services, lambda: place.n_events() == EVENTS - 1)
        step_until(services, lambda: all(service.ready for service in services))
        with place.bus("verdict") as bus:
            assert once.read(place.spec, bus, int(time.time() * 1000)).state.n_events == EVENTS - 1
        with place.bus("dead-letters") as bus, Pending(place.spec, bus) as letters:
            assert len(letters) == 1
            assert list(store.retry(place.spec, bus, letters)) == [1]
        for service in services:
            service.close()
    finally:
        for bus in buses.values():
            bus.close()


BEYOND: list[tuple[str, str, Callable[[Spec, KafkaBus], object]]] = [
    ("svb-worker", "Describe.*combined|DescribeConfigs the topic '.*posterior'|Write the topic '.*posterior'",
     lambda spec, bus: bus.publish([Output(f"{spec.name}.posterior", b"x", b"k", 0)])),
    ("subscribe", "Describe the topic '.*increments'", lambda spec, bus: bus.ends(f"{spec.name}.increments")),
    ("master", "Write the transactional id '.*produce.x'", lambda spec, bus: bus.writer(f"{spec.name}.produce.x")),
    ("monitor", "Describe the group '.*master'", lambda spec, bus: bus.committed(f"{spec.name}.master")),
    ("produce", "Create the topic '.*draws'",
     lambda spec, bus: bus._catalog._make([replace(names.topics_of(spec)[0], name=f"{spec.name}.draws")])),
]  # fmt: skip


def test_what_goes_beyond_is_denied(place: Place) -> None:
    place.make_topics()
    for role, message, attempt in BEYOND:
        with place.bus(role) as bus, pytest.raises(Forbidden, match=message):
            attempt(place.spec, bus)


def lacking(place: Place, role: str, grant: Grant, operation: str) -> str:
    """What a program says that lacks one right, and not what it implies; it must be soon."""
    seeing = (
        [] if operation in {"Describe", "DescribeConfigs", "Create"} else [replace(grant, operations=("Describe",))]
    )
    place.secured.allow(place.user(role), seeing)
    place.secured.forbid(place.user(role), [replace(grant, operations=(operation,))])
    deadline = time.monotonic() + PATIENCE_S
    place.log.clear()
    try:
        while True:
            try:
                ACTIVITIES.get(role, at_work)(place, role)
            except Forbidden as error:
                return str(error)
            except Unavailable:
                pass
            told = [line for line in place.log.text.splitlines() if f"may not {operation} the" in line]
            if told:  # a sign of life that fails ends nothing
                return told[-1]
            assert time.monotonic() < deadline, f"{role} does without {operation} on {grant.resource}"
    finally:
        place.secured.allow(place.user(role), [replace(grant, operations=(operation,))])
        place.secured.forbid(place.user(role), seeing)


OTHERS = {"svb-worker": "master", "master": "svb-worker", "monitor": "master"}
"""Without whom a service has nothing to do; they have all rights here."""


def at_work(place: Place, role: str) -> None:
    """A service with something to do, for a while; a record of the increments is junk, as an event is."""
    name = place.spec.name
    with ExitStack() as stack:
        everyone = stack.enter_context(place.bus_of(USER, PASSWORD))
        other = stack.enter_context(closing(place.service(OTHERS[role], everyone)))
        everyone.publish([Output(f"{name}.events", value, None, 0) for value in 12 * (b'{"y": 1}', b"bad")])
        everyone.publish([Output(f"{name}.increments", b"junk", b"k", 0)])
        service = stack.enter_context(closing(place.service(role, stack.enter_context(place.bus(role)))))
        until = time.monotonic() + WORK_S
        while time.monotonic() < until:
            service.step(0.05)
            other.step(0.05)


def making_topics(place: Place, role: str) -> None:
    """A topic that is new, and one that grows."""
    with place.bus(role) as bus:
        place.spec = replace(
            place.spec, data=replace(place.spec.data, partitions=1 + (place.spec.data.partitions or 0))
        )
        names.create_topics(place.spec, bus)
        fresh = f"{place.spec.name}.x{time.monotonic_ns()}"
        bus.create([replace(names.topics_of(place.spec)[0], name=fresh)])


ACTIVITIES: dict[str, Callable[[Place, str], None]] = {
    "produce": lambda place, _: place.produce(),
    "topics": making_topics,
    "subscribe": lambda place, _: place.n_events() and None,
}
KINDS = [
    ("svb-worker", "topic", "events", "Read"), ("svb-worker", "topic", "increments", "Write"),
    ("svb-worker", "topic", "increments", "DescribeConfigs"), ("svb-worker", "group", "svb-worker", "Read"),
    ("master", "topic", "events", "Describe"), ("master", "transactionalId", "master.", "Write"),
    ("topics", "topic", "", "Create"),
]  # fmt: skip


def named(kind: str) -> str:
    return {"transactionalId": "transactional id"}.get(kind, kind)


def test_a_right_that_is_missing_is_named(place: Place) -> None:
    place.make_topics()
    for role, kind, name, operation in KINDS:
        full = f"{place.spec.name}.{name}"
        (grant,) = (x for x in place.grants[role] if (x.resource.type, x.resource.name) == (kind, full))
        said = lacking(place, role, grant, operation)
        assert f"this user may not {operation} the {named(kind)} '{full}" in said, said
        assert f"--allow-principal User:{place.user(role)} --operation {operation} --" in said
        assert SECRET not in said


@LONG
@pytest.mark.parametrize("role", ["svb-worker", "master", "produce", "topics", "subscribe"])
def test_each_right_is_needed(place: Place, role: str) -> None:
    place.make_topics()
    with place.bus("master") as bus:
        place.service("master", bus).close()
    for grant in place.grants[role]:
        for operation in grant.operations:
            said = lacking(place, role, grant, operation)
            assert grant.resource.name in said, f"{operation} on {grant.resource.name}: {said}"
            assert "kafka-acls" in said
