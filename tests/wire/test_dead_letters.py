"""Dead letters: the record as it was, with its source and the reason in headers of ours."""

from __future__ import annotations

import pytest

from streaminfer.wire.dead_letters import MAX_BYTES, MAX_REASON, DeadLetter, Headers, decode, fitting, is_retried_mark
from streaminfer.wire.errors import BadValue

LETTERS = [
    DeadLetter("demo.events", 0, 0, "k: is missing", b"{}"),
    DeadLetter("demo.events", 3, 2**62, "", b"", b"", (("h", b""), ("h", b"\xff"))),
    DeadLetter("demo.events", 3, 7, "not JSON: a tombstone holds no event", None, b"\x00key"),
    DeadLetter("ü", 1, 2, "é" * 10, b"\xff\xfe", None, (("streaminfer-key", b"theirs"), ("streaminfer-topic", b"x"))),
    DeadLetter("t", 1, 2, "r", b"v", b"k", (("streaminfer-tombstone", b"1"), ("streaminfer-offset", b"9"))),
]


@pytest.mark.parametrize("letter", LETTERS)
def test_round_trip(letter: DeadLetter) -> None:
    assert decode(letter.value, letter.to_headers()) == letter


def test_a_tombstone_is_stored_as_an_empty_value_and_comes_back_as_one() -> None:
    tombstone, empty = (DeadLetter("t", 0, 0, "r", value) for value in (None, b""))
    assert decode(b"", tombstone.to_headers()).value is None
    assert decode(b"", empty.to_headers()).value == b""


def test_the_key_is_the_source_position() -> None:
    assert LETTERS[1].key == b"demo.events/3/4611686018427387904"
    assert LETTERS[1].retried_key == b"retried/demo.events/3/4611686018427387904"
    assert is_retried_mark(LETTERS[1].retried_key)
    assert not is_retried_mark(LETTERS[1].key)
    assert not is_retried_mark(None)


def test_a_long_reason_is_cut_and_odd_characters_do_not_stop_it() -> None:
    long = DeadLetter("t", 0, 0, "x" * 10_000, b"")
    assert decode(b"", long.to_headers()).reason == "x" * MAX_REASON
    odd = DeadLetter("t", 0, 0, "\udcff", b"")
    assert decode(b"", odd.to_headers()).reason == "\\udcff"


def _without(name: str) -> Headers:
    return tuple((key, value) for key, value in LETTERS[0].to_headers() if key != f"streaminfer-{name}")


def _with(name: str, value: bytes) -> Headers:
    return tuple((key, value if key == f"streaminfer-{name}" else old) for key, old in LETTERS[0].to_headers())


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("a", b"b"),),
        _without("topic"),
        _without("partition"),
        _without("offset"),
        _without("reason"),
        _without("tombstone"),
        _with("partition", b"-1"),
        _with("offset", b"-1"),
        _with("offset", b"x"),
        _with("offset", b""),
        _with("offset", b"9" * 5000),
        _with("partition", b"1.0"),
        _with("topic", b"\xff"),
        (("streaminfer-length", b"x"), *_with("offset", b"1")),
        (("streaminfer-length", b"-1"), *_with("offset", b"1")),
    ],
)
def test_headers_that_are_not_ours(headers: Headers) -> None:
    with pytest.raises(BadValue, match="a dead letter"):
        decode(b"", headers)


BIG = 3 << 20


def _size(letter: DeadLetter) -> int:
    named = sum(len(name.encode()) + len(value) for name, value in letter.to_headers())
    return len(letter.key) + len(letter.value or b"") + named


@pytest.mark.parametrize("letter", LETTERS)
def test_a_letter_that_fits_is_left_as_it_is(letter: DeadLetter) -> None:
    assert fitting(letter) is letter
    assert not letter.is_cut


@pytest.mark.parametrize(
    ("letter", "dropped"),
    [
        (DeadLetter("t", 0, 0, "r", b"v" * BIG), ""),
        (DeadLetter("t", 0, 0, "r", b"v" * BIG, b"k" * BIG), "2883584 bytes of the key"),
        (DeadLetter("t", 0, 0, "r", None, b"k" * BIG), "2883584 bytes of the key"),
        (DeadLetter("t", 0, 0, "r", b"v", b"k", (("a", b"1"), ("h", b"x" * BIG), ("b", b"2"))), "2 headers"),
        (DeadLetter("t", 0, 0, "r", b"v" * BIG, b"k", (("", b""),) * 200_000), "183616 headers"),
    ],
)
def test_one_that_does_not_is_cut_and_says_what_is_gone(letter: DeadLetter, dropped: str) -> None:
    found = fitting(letter)
    assert _size(found) <= MAX_BYTES
    assert found.is_cut
    assert found.dropped == dropped
    assert (letter.value or b"").startswith(found.value or b"")
    assert found.headers == letter.headers[: len(found.headers)]
    if len(letter.value or b"") == BIG:
        assert found.full_length == BIG
        assert _size(found) > MAX_BYTES - 600_000
    assert decode(found.value or b"", found.to_headers()) == found
