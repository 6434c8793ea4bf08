"""Measurements and dead letters: the newest are kept, and never too many."""

from __future__ import annotations

from dataclasses import replace

from streaminfer.bus.protocol import Partition, Record
from streaminfer.measuring.measurement import Measurement
from streaminfer.measuring.published import Moment, Published
from streaminfer.runtime.monitoring.memory import dead_letters as letters_module
from streaminfer.runtime.monitoring.memory import measurements as measurements_module
from streaminfer.runtime.monitoring.memory.dead_letters import DeadLetters
from streaminfer.runtime.monitoring.memory.measurements import Measurements
from streaminfer.wire.dead_letters import DeadLetter

LETTER = DeadLetter("demo.events", 0, 0, "bad", b"x")


def published(check: str, version: int) -> Published:
    return Published("f", "m", version, Moment(version), Measurement(check, "good", "fine"))


def test_measurements_by_check_since_and_limit() -> None:
    held = Measurements()
    for number in range(10):
        held.add(number, 100, published("stein" if number % 2 else "coverage", number))
    held.show()
    assert [each["id"] for each in held.page(None, 0, 3)] == [7, 8, 9]
    assert [each["id"] for each in held.page("stein", 3, 10)] == [5, 7, 9]
    assert held.newest["coverage", "posterior"].moment.version == 8


def test_measurements_are_bounded_by_number_and_bytes() -> None:
    held = Measurements()
    for number in range(measurements_module.MOST + 10):
        held.add(number, 1, published("stein", number))
    held.show()
    assert (len(held.shown), held.shown[0][0]) == (measurements_module.MOST, 10)
    held.add(10**6, measurements_module.MOST_BYTES, published("stein", 1))
    held.show()
    assert [number for number, _ in held.shown] == [10**6]
    for i in range(300):
        held.add(10**7 + i, 1, published(f"c{i}", i))
    assert len(held.newest) == measurements_module.MOST_CHECKS


def record(letter: DeadLetter, offset: int) -> Record:
    return Record(Partition("demo.dead-letters", 0), offset, 0, letter.key, letter.value, letter.to_headers())


def test_the_newest_letters_are_kept_once_each_and_cut() -> None:
    held = DeadLetters()
    for offset in range(letters_module.MOST + 20):
        assert held.add(record(replace(LETTER, offset=offset), offset))
    held.add(record(replace(LETTER, offset=100), 5000))
    held.add(record(replace(LETTER, offset=7000, value=b"v" * 9000, source_key=b"k" * 9000), 7000))
    held.show()
    assert len(held.shown) == letters_module.MOST
    (listed, more) = held.page(None, 2)
    assert [(each["id"], each["offset"]) for each in listed] == [(7000, 7000), (5000, 100)]
    assert (listed[0]["length"], len(listed[0]["value"]), listed[0]["cut"]) == (9000, letters_module.VALUE_BYTES, True)
    assert more == 5000


def test_a_letter_that_was_sent_again_is_gone_and_others_are_passed_over() -> None:
    held = DeadLetters()
    held.add(record(LETTER, 0))
    assert not held.add(Record(Partition("demo.dead-letters", 0), 1, 0, b"x", b"y", ()))
    assert held.add(Record(Partition("demo.dead-letters", 0), 2, 0, LETTER.retried_key, b"1", ()))
    held.show()
    assert held.shown == ()
