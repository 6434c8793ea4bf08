"""Contract of the bus: a commit is everything or nothing, and only the newest writer and owner can do it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streaminfer.bus.protocol import (
    BusError,
    Fenced,
    Output,
    Partition,
    Position,
    TooLarge,
    Topic,
    UnknownTopic,
    Writer,
)
from tests.contracts.bus_actors import Actor, pass_time, shared_out, until
from tests.contracts.bus_harness import HARNESSES, Harness, fixture_over, outputs, read_all, values

harness = fixture_over(HARNESSES)

P0, P1 = Partition("t", 0), Partition("t", 1)


def test_outputs_and_positions_are_committed_together(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2), Topic("u", 1)])
    sent = [Output("t", b"a", partition=1), Output("u", b"b"), Output("t", b"c", partition=1)]
    with bus.writer("w") as writer:
        offsets = writer.commit(sent, {P0: Position(3, "three"), P1: Position(0)}, "group")
    other = harness.open()
    assert [(r.value, r.offset) for r in read_all(other, "t")] == [(b"a", offsets[0]), (b"c", offsets[2])]
    assert [(r.value, r.offset) for r in read_all(other, "u")] == [(b"b", offsets[1])]
    assert other.committed("group") == {P0: Position(3, "three"), P1: Position(0, "")}


def test_positions_may_be_committed_without_outputs_and_replaced(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    writer = bus.writer("w")
    assert writer.commit([], {P0: Position(1, "a"), P1: Position(1, "b")}, "group") == []
    assert writer.commit([], {P0: Position(0, "back")}, "group") == []
    assert bus.committed("group") == {P0: Position(0, "back"), P1: Position(1, "b")}
    assert bus.committed("nobody") == {}


def test_notes_up_to_4000_characters_are_kept(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    note = "é☃" * 2000
    bus.writer("w").commit([], {P0: Position(0, note)}, "group")
    assert harness.open().committed("group") == {P0: Position(0, note)}


BAD_COMMITS: dict[str, tuple[type[Exception], Callable[[Writer], object]]] = {
    "unknown topic": (
        UnknownTopic,
        lambda w: w.commit([*outputs("t", 5), Output("nope", b"x")], {P0: Position(9)}, "group"),
    ),
    "unknown partition": (
        UnknownTopic,
        lambda w: w.commit([*outputs("t", 5), Output("t", b"x", partition=2)], {P0: Position(9)}, "group"),
    ),
    "position of an unknown partition": (
        UnknownTopic,
        lambda w: w.commit(outputs("t", 5), {P0: Position(9), Partition("t", 5): Position(9)}, "group"),
    ),
    "too large": (
        TooLarge,
        lambda w: w.commit([*outputs("t", 5), Output("t", b"x" * 20_000_000)], {P0: Position(9)}, "group"),
    ),
    "compacted without key": (
        BusError,
        lambda w: w.commit([*outputs("t", 5), Output("c", b"x")], {P0: Position(9)}, "group"),
    ),
    "long note": (ValueError, lambda w: w.commit(outputs("t", 5), {P0: Position(9, "n" * 4001)}, "group")),
    "negative position": (ValueError, lambda w: w.commit(outputs("t", 5), {P0: Position(-1)}, "group")),
    "positions of nobody": (ValueError, lambda w: w.commit(outputs("t", 5), {P0: Position(9)})),
}


@pytest.mark.parametrize("name", BAD_COMMITS)
def test_a_commit_that_fails_leaves_nothing_and_the_next_one_works(harness: Harness, name: str) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2), Topic("c", 1, "compact")])
    writer = bus.writer("w")
    writer.commit([Output("t", b"before", partition=0)], {P0: Position(1, "before")}, "group")
    error, attempt = BAD_COMMITS[name]
    with pytest.raises(error):
        attempt(writer)
    other = harness.open()
    assert values(read_all(other, "t")) == [b"before"]
    assert read_all(other, "c") == []
    assert other.committed("group") == {P0: Position(1, "before")}
    writer = bus.writer("w")
    writer.commit([Output("t", b"after", partition=0)], {P0: Position(2, "after")}, "group")
    assert values(read_all(other, "t")) == [b"before", b"after"]
    assert other.committed("group") == {P0: Position(2, "after")}


def test_a_newer_writer_of_the_name_fences_the_older_ones(harness: Harness) -> None:
    bus, other = harness.open(), harness.open()
    bus.create([Topic("t", 2)])
    old, bystander = bus.writer("master-0"), bus.writer("master-1")
    old.commit([Output("t", b"old", partition=0)])
    new = other.writer("master-0")
    for _ in range(2):
        with pytest.raises(Fenced):
            old.commit([Output("t", b"zombie", partition=0)], {P0: Position(5)}, "group")
    new.commit([Output("t", b"new", partition=0)])
    bystander.commit([Output("t", b"bystander", partition=1)])
    assert values(read_all(other, "t")) == [b"old", b"new", b"bystander"]
    assert other.committed("group") == {}
    newest = bus.writer("master-0")
    with pytest.raises(Fenced):
        new.commit([Output("t", b"zombie", partition=0)])
    newest.commit([Output("t", b"newest", partition=0)])


def test_a_closed_writer_stays_fenced_off_by_its_successor_only(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    with bus.writer("w") as first:
        first.commit([Output("t", b"1")])
    with bus.writer("w") as second:
        second.commit([Output("t", b"2")])
    assert values(read_all(bus, "t")) == [b"1", b"2"]


def test_an_owner_commits_for_its_group(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    actor = Actor(bus, "g", ["t"])
    until(shared_out([actor], 2), [actor])
    bus.writer("w").commit([Output("t", b"x", partition=0)], {P0: Position(1, "n")}, actor.member)
    assert harness.open().committed("g") == {P0: Position(1, "n")}


def test_an_owner_that_lost_its_partition_is_fenced_with_all_outputs(harness: Harness) -> None:
    harness.open().create([Topic("t", 2), Topic("out", 1)])
    zombie, other = Actor(harness.open(), "g", ["t"]), Actor(harness.open(), "g", ["t"])
    until(shared_out([zombie, other], 2), [zombie, other])
    writer = zombie.bus.writer("zombie")
    (lost,), (theirs,) = zombie.owned, other.owned
    with pytest.raises(Fenced):
        writer.commit(outputs("out", 3), {lost: Position(1), theirs: Position(1)}, zombie.member)
    pass_time(harness, 2 * harness.session_s, [other])
    until(shared_out([other], 2), [other])
    writer = zombie.bus.writer("zombie")
    with pytest.raises(Fenced):
        writer.commit(outputs("out", 3), {lost: Position(1)}, zombie.member)
    assert read_all(other.bus, "out") == []
    assert other.bus.committed("g") == {}
    other.bus.writer("other").commit(outputs("out", 1), {lost: Position(1)}, other.member)
    assert values(read_all(other.bus, "out")) == [b"v0"]


def test_a_replaced_static_owner_is_fenced_even_without_positions(harness: Harness) -> None:
    harness.open().create([Topic("t", 1), Topic("out", 1)])
    old = Actor(harness.open(), "g", ["t"], "one")
    until(shared_out([old], 1), [old])
    new = Actor(harness.open(), "g", ["t"], "one")
    until(shared_out([new], 1), [new])
    with pytest.raises(Fenced):
        old.bus.writer("w").commit(outputs("out", 1), {}, old.member)
    assert read_all(new.bus, "out") == []


def test_a_group_with_members_takes_positions_from_them_only(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    actor = Actor(harness.open(), "g", ["t"])
    until(shared_out([actor], 1), [actor])
    with pytest.raises(Fenced):
        bus.writer("w").commit([Output("t", b"x")], {P0: Position(1)}, "g")
    assert bus.committed("g") == {}
    actor.member.close()
    bus.writer("w").commit([Output("t", b"x")], {P0: Position(1)}, "g")
    assert bus.committed("g") == {P0: Position(1)}
    assert values(read_all(bus, "t")) == [b"x"]
