"""Headers survive the way into bytes and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaminfer.bus.protocol import Headers
from streaminfer.bus.sqlite.headers import decode, encode

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(names, st.binary(max_size=40)), min_size=1, max_size=6).map(tuple))
def test_round_trip(headers: Headers) -> None:
    packed = encode(headers)
    assert packed is not None
    assert decode(packed) == headers


def test_no_headers_are_no_bytes() -> None:
    assert encode(()) is None
