"""The assignment: complete, balanced, sticky, whatever the history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaminfer.bus.sqlite.assignment import assign

ALL = frozenset({"a"})

owners = st.dictionaries(st.integers(1, 12), st.integers(1, 8))


@given(st.sets(st.integers(1, 6), min_size=1), st.integers(0, 12), owners)
def test_equal_members_share_everything_evenly(members: set[int], count: int, before: dict[int, int]) -> None:
    after = assign(dict.fromkeys(members, ALL), dict.fromkeys(range(1, count + 1), "a"), before)
    assert sorted(after) == list(range(1, count + 1))
    loads = [sum(owner == member for owner in after.values()) for member in members]
    assert max(loads) - min(loads) <= 1


@given(st.sets(st.integers(1, 6), min_size=1), st.integers(1, 12), owners)
def test_no_more_moves_than_balance_needs(members: set[int], count: int, before: dict[int, int]) -> None:
    partitions = dict.fromkeys(range(1, count + 1), "a")
    after = assign(dict.fromkeys(members, ALL), partitions, before)
    held = sorted((sum(before.get(p) == m for p in partitions) for m in members), reverse=True)
    low, extra = divmod(count, len(members))
    # The largest holders keep the larger shares; only what is above a member's share must move.
    needed = sum(max(0, load - low - (i < extra)) for i, load in enumerate(held))
    moved = sum(before.get(p) in members and before[p] != after[p] for p in partitions)
    assert moved == needed
    assert assign(dict.fromkeys(members, ALL), partitions, after) == after


@given(
    st.dictionaries(st.integers(1, 5), st.frozensets(st.sampled_from("abc"), min_size=1), min_size=1),
    st.dictionaries(st.integers(1, 12), st.sampled_from("abc")),
    owners,
)
def test_members_get_only_their_topics(
    members: dict[int, frozenset[str]], partitions: dict[int, str], before: dict[int, int]
) -> None:
    after = assign(members, partitions, before)
    wanted = frozenset().union(*members.values())
    assert sorted(after) == sorted(p for p, topic in partitions.items() if topic in wanted)
    assert all(partitions[p] in members[owner] for p, owner in after.items())
    loads = {member: sum(owner == member for owner in after.values()) for member in members}
    for partition, owner in after.items():
        takers = [member for member in members if partitions[partition] in members[member]]
        assert all(loads[owner] - loads[member] <= 1 for member in takers)


def test_nobody_owns_what_nobody_wants() -> None:
    assert assign({}, {1: "a"}, {1: 7}) == {}
