"""One of a thing and several."""

from __future__ import annotations

import pytest

from streaminfer import fit, parse_spec
from streaminfer.runtime.plurals import counted


@pytest.mark.parametrize(("n", "text"), [(0, "0 events"), (1, "1 event"), (2, "2 events"), (1000, "1,000 events")])
def test_one_and_several(n: int, text: str) -> None:
    assert counted(n, "event") == text


def test_a_plural_of_its_own_and_a_width() -> None:
    assert counted(1, "process", "processes") == "1 process"
    assert counted(2, "process", "processes") == "2 processes"
    assert counted(1, "event", width=4) == "   1 event"


def test_a_posterior_of_one_event() -> None:
    spec = parse_spec({"name": "coin", "model": {"kind": "bernoulli", "field": "y"}})
    assert repr(fit(spec, [{"y": 1}])) == "<coin version 1: 1 event, p=0.6667>"
