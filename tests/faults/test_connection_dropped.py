"""Replies of the broker are lost with their connection: what was asked is done once or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from streaminfer.bus.broker.settings import Address
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Bus, BusError, Output, Partition, Position, Topic
from tests.brokers.local import LocalBroker
from tests.faults.answers import linear_regression
from tests.faults.dropping import APIS, DroppingProxy, Rule, broker_behind_proxy
from tests.faults.flowing import Flow
from tests.faults.programs import Programs

pytestmark = pytest.mark.xdist_group("dropped")

P0 = Partition("t", 0)
IN_A_TRANSACTION = ("Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")


class Rig(NamedTuple):
    """A broker, the proxy before it, and a bus on each."""

    broker: LocalBroker
    proxy: DroppingProxy
    through: Bus
    direct: Bus


@pytest.fixture(scope="module")
def behind() -> Iterator[tuple[LocalBroker, DroppingProxy]]:
    with broker_behind_proxy() as both:
        yield both


@pytest.fixture
def rig(behind: tuple[LocalBroker, DroppingProxy]) -> Iterator[Rig]:
    broker, proxy = behind
    with namespace(broker, proxy) as made:
        yield made


@contextmanager
def namespace(broker: LocalBroker, proxy: DroppingProxy) -> Iterator[Rig]:
    name = uuid.uuid4().hex[:8]
    proxy.drop({})
    with (
        KafkaBus(Address((f"127.0.0.1:{proxy.port}",), name)) as through,
        KafkaBus(Address((broker.address,), name)) as direct,
    ):
        through.create([Topic("t", 1)])
        yield Rig(broker, proxy, through, direct)


def read(bus: Bus) -> list[bytes | None]:
    end, found = bus.ends("t")[0], []
    with bus.reader({P0: 0}) as reader:
        while reader.position(P0) < end:
            found += [record.value for part in reader.poll(1).slices for record in part.records]
    return found


def first(n: int) -> Rule:
    return lambda count: count <= n


def every(n: int) -> Rule:
    return lambda count: count % n == 0


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("api", IN_A_TRANSACTION)
def test_a_commit_whose_reply_is_lost_is_all_or_nothing_and_once(rig: Rig, api: str, times: int) -> None:
    with rig.through.writer("w") as writer:
        writer.commit([Output("t", b"before")], {P0: Position(1)}, "g")
        rig.proxy.drop({api: first(times)})
        try:
            writer.commit([Output("t", b"a"), Output("t", b"b")], {P0: Position(2)}, "g")
            said_done = True
        except BusError:
            said_done = False
    assert rig.proxy.dropped[api] > 0
    rig.proxy.drop({})
    with rig.through.writer("w") as newer:  # whatever was left open is ended by this
        kept, place = read(rig.direct), rig.direct.committed("g")[P0].offset
        assert (kept, place) in [([b"before"], 1), ([b"before", b"a", b"b"], 2)]
        assert place == 2 or not said_done, "a commit that was confirmed is not there"
        newer.commit([Output("t", b"after")], {P0: Position(3)}, "g")
    assert read(rig.direct) == [*kept, b"after"]
    assert rig.direct.committed("g") == {P0: Position(3)}


@pytest.mark.parametrize("times", [1, 3])
def test_records_whose_acknowledgement_is_lost_are_there_once_and_in_order(rig: Rig, times: int) -> None:
    sent = [str(i).encode() for i in range(50)]
    rig.through.publish([Output("t", value) for value in sent[:10]])
    rig.proxy.drop({"Produce": first(times)})
    offsets = rig.through.publish([Output("t", value) for value in sent[10:40]])
    assert rig.proxy.dropped["Produce"] == times
    rig.through.publish([Output("t", value) for value in sent[40:]])
    assert offsets == list(range(10, 40))
    assert read(rig.direct) == sent


def test_a_writer_whose_opening_was_not_confirmed_fences_all_the_same(rig: Rig) -> None:
    with rig.through.writer("w") as older:
        rig.proxy.drop({"InitProducerId": first(1)})
        with rig.through.writer("w") as newer:
            assert rig.proxy.dropped["InitProducerId"] == 1
            with pytest.raises(BusError):
                older.commit([Output("t", b"older")])
            newer.commit([Output("t", b"newer")])
    assert read(rig.direct) == [b"newer"]


def play(programs: Programs, behind: tuple[LocalBroker, DroppingProxy], rows: int, rules: dict[str, Rule]) -> None:
    """All processes work through the proxy; only the test's own looks do not."""
    broker, proxy = behind
    case, name = linear_regression(rows), f"dropped-{uuid.uuid4().hex[:8]}"
    proxy.drop(rules)
    flow = Flow(programs, f"kafka://127.0.0.1:{proxy.port}", case, name)
    flow.url = f"kafka://{broker.address}"
    flow.moves(rows // 2)
    flow.finish()
    assert all(proxy.dropped[name] > 0 for name in rules), proxy.dropped
    proxy.drop({})


def test_services_whose_replies_are_lost_stay_exact(
    programs: Programs, behind: tuple[LocalBroker, DroppingProxy]
) -> None:
    play(programs, behind, 2500, {"EndTxn": every(7), "Produce": every(11)})


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("api", APIS)
def test_services_whose_replies_of_one_kind_are_often_lost_stay_exact(
    programs: Programs, behind: tuple[LocalBroker, DroppingProxy], api: str
) -> None:
    play(programs, behind, 6000, {api: every(3)})
