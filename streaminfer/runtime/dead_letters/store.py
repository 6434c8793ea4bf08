"""Dead letters on the bus: writing, listing, and sending them again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from streaminfer.bus.protocol import Bus, Output, Partition, Record
from streaminfer.models.events import look_up
from streaminfer.models.keys import label_of
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters.tally import Tally
from streaminfer.spec import Spec
from streaminfer.wire import dead_letters
from streaminfer.wire.dead_letters import DeadLetter
from streaminfer.wire.errors import WireError
from streaminfer.wire.events.json_values import parse_json

RETRY_BATCH = 500
PORTION_BYTES = 8 << 20
NEWEST = 10_000
SECONDS = 5.0
"""How many dead letters are looked at, and for how long, only to say something about them."""


def letter_output(spec: Spec, record: Record, reason: str, rest: bytes | None = None) -> Output:
    """A record's dead letter. An empty value stands for a tombstone, which compaction would drop.

    If a record has good events too, `rest` has the bad ones alone: sent again, none counts twice.
    """
    source = record.partition
    kept = record.value if rest is None else rest
    letter = dead_letters.fitting(
        DeadLetter(source.topic, source.index, record.offset, reason, kept, record.key, record.headers)
    )
    value = b"" if letter.value is None else letter.value
    return Output(names.topic(spec, "dead-letters"), value, letter.key, 0, letter.to_headers())


def publish(bus: Bus, outputs: Sequence[Output]) -> None:
    """Writes dead letters in portions: many that are large, all at once, might never be durable in time."""
    portion: list[Output] = []
    size = 0
    for output in outputs:
        portion.append(output)
        size += len(output.value or b"")
        if size >= PORTION_BYTES:
            bus.publish(portion)
            portion, size = [], 0
    if portion:
        bus.publish(portion)


def counted(letters: Iterable[DeadLetter]) -> Tally:
    """How many letters have which reason."""
    tally = Tally()
    for letter in letters:
        tally.add(letter.reason, letter.value)
    return tally


def newest(spec: Spec, bus: Bus, since: Mapping[int, int] | None = None) -> Iterator[DeadLetter]:
    """At most NEWEST dead letters, those sent again too, for about SECONDS: enough to say something of them.

    `since` are positions from which on they count.
    """
    topic, deadline = names.topic(spec, "dead-letters"), time.monotonic() + SECONDS
    seen: set[bytes] = set()
    begins = {i: max(end - NEWEST, (since or {}).get(i, 0)) for i, end in bus.ends(topic).items()}
    for record in all_records(bus, topic, begins):
        if time.monotonic() >= deadline:
            return
        if record.key in seen or dead_letters.is_retried_mark(record.key):
            continue
        seen.add(record.key or b"")
        try:
            yield dead_letters.decode(record.value, record.headers)
        except WireError:
            continue  # not written by streaminfer


class Holding(NamedTuple):
    """The newest dead letters: how many there are, how many have a key, and how many may have it."""

    letters: int
    with_key: int
    unknown: int


def with_key(spec: Spec, bus: Bus, key: str) -> Holding:
    """Whether dead letters have a key, by the keys of their records, or by their values if these are JSON."""
    label = key.encode()
    counts = Counter(_has_key(spec, letter, label) for letter in newest(spec, bus))
    return Holding(counts.total(), counts[True], counts[None])


def _has_key(spec: Spec, letter: DeadLetter, label: bytes) -> bool | None:
    """None if it cannot be known: the value is not JSON, or a row without names that has the text of the key."""
    if letter.source_key == label:
        return True
    try:
        event = parse_json(letter.value)
        if isinstance(event, dict) and spec.key_field is not None:
            return label_of(look_up(event, spec.key_field.path)[0]) == label
    except (ValueError, TypeError, RecursionError):
        pass
    return None if letter.value and (not letter.value.startswith((b"{", b"[")) or label in letter.value) else False


def retry(spec: Spec, bus: Bus, letters: Iterable[DeadLetter]) -> Iterator[int]:
    """Sends data events again, each with its mark in one transaction, so that none is sent twice; yields counts.

    Some letters stay: those of other topics (increments that could not be read), of partitions that never existed, and
    those that have only a part of their record. Raises NotOurs if the data topic is external.
    """
    data = names.own_data_topic(spec)
    partitions = len(bus.starts(data))
    mine = (x for x in letters if x.topic == data and 0 <= x.partition < partitions and not x.is_cut)
    with bus.writer(names.dead_letters_writer(spec)) as writer:
        while batch := list(islice(mine, RETRY_BATCH)):
            events = [Output(data, x.value, x.source_key, x.partition, x.headers) for x in batch]
            marks = [Output(names.topic(spec, "dead-letters"), b"1", x.retried_key, 0) for x in batch]
            writer.commit([*events, *marks])
            yield len(batch)


def all_records(bus: Bus, topic: str, begins: Mapping[int, int] | None = None) -> Iterator[Record]:
    """Every record of a topic up to its ends as they are now, from some positions on, or from the start."""
    ends = bus.ends(topic)
    starts = {i: max(start, (begins or {}).get(i, 0)) for i, start in bus.starts(topic).items()}
    with bus.reader({Partition(topic, i): start for i, start in starts.items()}) as reader:
        while any(reader.position(Partition(topic, i)) < end for i, end in ends.items()):
            for part in reader.poll(1.0).slices:
                yield from part.records
