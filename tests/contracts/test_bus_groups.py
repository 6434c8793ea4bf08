"""Contract of the bus: groups share partitions out, and a partition has one owner that can commit."""

from __future__ import annotations

import pytest

from streaminfer.bus.protocol import BusError, Fenced, Partition, Position, Replaced, Topic, UnknownTopic
from tests.contracts.bus_actors import Actor, pass_time, shared_out, until
from tests.contracts.bus_harness import HARNESSES, Harness, fixture_over, outputs

harness = fixture_over(HARNESSES)


def actors(harness: Harness, count: int, partitions: int) -> list[Actor]:
    """Members of one group with a connection each, settled."""
    harness.open().create([Topic("t", partitions)])
    made = [Actor(harness.open(), "g", ["t"]) for _ in range(count)]
    until(shared_out(made, partitions), made)
    for actor in made:
        actor.revoked.clear()
    return made


def test_a_partition_brings_nothing_until_it_is_sought(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    bus.publish(outputs("t", 4, partition=0) + outputs("t", 4, partition=1))
    member = bus.member("g", ["t"])
    assert member.group == "g"
    assert member.assignment == frozenset()
    assigned: tuple[Partition, ...] = ()
    for _ in range(100):
        poll = member.poll(0.1)
        assert poll.slices == ()
        assert poll.revoked == ()
        assigned += poll.assigned
        if assigned:
            break
    assert sorted(assigned) == [Partition("t", 0), Partition("t", 1)]
    assert member.assignment == frozenset(assigned)
    assert member.poll(0.1).slices == ()
    with pytest.raises(BusError, match="seek"):
        member.position(Partition("t", 0))
    member.seek(Partition("t", 1), 0)
    poll = member.poll(1)
    assert {slice_.partition for slice_ in poll.slices} == {Partition("t", 1)}
    with pytest.raises(BusError, match="t-7"):
        member.seek(Partition("t", 7), 0)


@pytest.mark.parametrize(("count", "partitions"), [(1, 3), (2, 4), (3, 7), (4, 3)])
def test_partitions_are_shared_out_evenly_and_completely(harness: Harness, count: int, partitions: int) -> None:
    made = actors(harness, count, partitions)
    pass_time(harness, 2 * harness.session_s, made)
    assert shared_out(made, partitions)()
    sent = [output for index in range(partitions) for output in outputs("t", 5, index, prefix=f"{index}-")]
    made[0].bus.publish(sent)
    until(lambda: sum(len(actor.records) for actor in made) >= len(sent), made)
    assert sorted(r.value or b"" for actor in made for r in actor.records) == sorted(o.value or b"" for o in sent)


def test_joining_moves_only_what_balance_needs(harness: Harness) -> None:
    made = actors(harness, 2, 6)
    before = [set(actor.owned) for actor in made]
    made.append(Actor(harness.open(), "g", ["t"]))
    until(shared_out(made, 6), made)
    assert [len(actor.owned) for actor in made] == [2, 2, 2]
    assert all(actor.owned < old for actor, old in zip(made, before, strict=False))


def test_leaving_frees_partitions_at_once_and_the_others_keep_theirs(harness: Harness) -> None:
    made = actors(harness, 3, 6)
    kept = [set(actor.owned) for actor in made[:2]]
    made.pop().member.close()
    until(shared_out(made, 6), made)
    assert all(old < actor.owned for actor, old in zip(made, kept, strict=True))
    assert [actor.revoked for actor in made] == [[], []]


def test_closing_the_bus_leaves_its_groups(harness: Harness) -> None:
    made = actors(harness, 2, 4)
    made.pop().bus.close()
    until(shared_out(made, 4), made)


def test_the_partitions_of_a_silent_member_move_on(harness: Harness) -> None:
    crashed, other = actors(harness, 2, 4)
    pass_time(harness, 0.5 * harness.session_s, [other])
    assert shared_out([crashed, other], 4)(), "half a session is not silence"
    pass_time(harness, 1.5 * harness.session_s, [other])
    until(shared_out([other], 4), [other])


def test_a_member_stays_while_it_polls_and_has_nothing_to_read(harness: Harness) -> None:
    made = actors(harness, 2, 2)
    pass_time(harness, 4 * harness.session_s, made)
    assert shared_out(made, 2)()
    assert [actor.revoked for actor in made] == [[], []]


def test_a_zombie_cannot_commit_and_learns_what_it_lost(harness: Harness) -> None:
    zombie, other = actors(harness, 2, 4)
    lost = sorted(zombie.owned)
    pass_time(harness, 2 * harness.session_s, [other])
    until(shared_out([other], 4), [other])
    other.member.commit({partition: Position(7, "mine") for partition in lost})
    for partition in lost:
        with pytest.raises(Fenced):
            zombie.member.commit({partition: Position(3, "old")})
    committed = other.bus.committed("g")
    assert committed == {partition: Position(7, "mine") for partition in lost}
    zombie.bus.publish([output for index in range(4) for output in outputs("t", 10, index)])
    until(lambda: set(lost) <= set(zombie.revoked), [zombie])
    until(shared_out([zombie, other], 4), [zombie, other])


def test_a_member_alone_that_was_silent_is_told_and_comes_back(harness: Harness) -> None:
    (alone,) = actors(harness, 1, 3)
    everything = sorted(alone.owned)
    harness.advance(2 * harness.session_s)
    until(lambda: sorted(alone.revoked) == everything, [alone])
    until(shared_out([alone], 3), [alone])
    alone.member.commit({everything[0]: Position(0, "again")})


def test_only_the_owner_commits(harness: Harness) -> None:
    one, other = actors(harness, 2, 2)
    (mine,), (theirs,) = one.owned, other.owned
    one.member.commit({mine: Position(5, "five")})
    with pytest.raises(Fenced):
        one.member.commit({mine: Position(6), theirs: Position(6)})
    assert one.bus.committed("g") == {mine: Position(5, "five")}


def test_a_static_member_takes_over_at_once_and_its_predecessor_is_fenced(harness: Harness) -> None:
    harness.open().create([Topic("t", 4)])
    old = Actor(harness.open(), "g", ["t"], "one")
    other = Actor(harness.open(), "g", ["t"], "two")
    until(shared_out([old, other], 4), [old, other])
    inherited, kept = set(old.owned), set(other.owned)
    new = Actor(harness.open(), "g", ["t"], "one")
    until(shared_out([new, other], 4), [new, other])
    assert (new.owned, other.owned) == (inherited, kept)
    new.member.commit({partition: Position(1) for partition in inherited})
    for _ in range(2):
        with pytest.raises(Replaced):
            old.member.poll(0.1)
    with pytest.raises(Fenced):
        old.member.commit({next(iter(inherited)): Position(9)})
    old.member.close()
    pass_time(harness, harness.session_s, [new, other])
    assert (new.owned, other.owned) == (inherited, kept), "a fenced member that closes takes nothing with it"


def test_a_fenced_static_member_stays_fenced_when_its_successor_has_gone(harness: Harness) -> None:
    harness.open().create([Topic("t", 1)])
    old = Actor(harness.open(), "g", ["t"], "one")
    until(shared_out([old], 1), [old])
    new = Actor(harness.open(), "g", ["t"], "one")
    until(shared_out([new], 1), [new])
    new.member.close()
    with pytest.raises(Fenced):
        old.member.poll(0.1)


def test_added_partitions_are_shared_out(harness: Harness) -> None:
    made = actors(harness, 2, 2)
    before = [set(actor.owned) for actor in made]
    harness.open().create([Topic("t", 6)])
    pass_time(harness, harness.session_s, made)
    until(shared_out(made, 6), made)
    assert all(old < actor.owned for actor, old in zip(made, before, strict=True))


def test_groups_and_topics_do_not_disturb_each_other(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2), Topic("u", 2), Topic("v", 2)])
    first = Actor(harness.open(), "g", ["t", "u"])
    second = Actor(harness.open(), "g", ["u"])
    stranger = Actor(harness.open(), "h", ["t"])
    until(
        lambda: second.owned and len(first.owned | second.owned) == 4 and len(stranger.owned) == 2,
        [first, second, stranger],
    )
    assert {partition.topic for partition in second.owned} == {"u"}
    assert {Partition("t", 0), Partition("t", 1)} <= first.owned
    assert not first.owned & second.owned
    stranger.member.commit({Partition("t", 0): Position(3)})
    assert bus.committed("g") == {}
    assert bus.committed("h") == {Partition("t", 0): Position(3)}
    with pytest.raises(UnknownTopic):
        bus.member("g", ["w"])
    with pytest.raises(ValueError, match="topic"):
        bus.member("g", [])


def test_a_new_owner_goes_on_where_the_group_stands(harness: Harness) -> None:
    (first,) = actors(harness, 1, 1)
    partition = Partition("t", 0)
    offsets = first.bus.publish(outputs("t", 20, partition=0))
    until(lambda: len(first.records) == 20, [first])
    first.member.commit({partition: Position(offsets[12], "twelve")})
    first.bus.close()
    second = Actor(harness.open(), "g", ["t"])
    until(lambda: bool(second.records), [second])
    assert second.records[0].value == b"v12"
    assert second.bus.committed("g")[partition] == Position(offsets[12], "twelve")


def test_a_paused_partition_stays_owned(harness: Harness) -> None:
    (actor,) = actors(harness, 1, 1)
    actor.member.pause(Partition("t", 0))
    actor.bus.publish(outputs("t", 3, partition=0))
    pass_time(harness, 2 * harness.session_s, [actor])
    assert actor.owned == {Partition("t", 0)}
    assert actor.records == []
    actor.member.resume(Partition("t", 0))
    until(lambda: len(actor.records) == 3, [actor])
