"""fit of a spec with a key: the posteriors of all keys, and they are those of the bus."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer import KeyedPosteriors, RowError, fit, parse_spec
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from tests.runtime.folding.test_keyed_pooling import pooled_rig
from tests.runtime.keyed_rig import KeyedRig, keyed_spec
from tests.runtime.keyed_streams import BEGIN, run, stream
from tests.spec.documents import FULL


def assert_same(rig: KeyedRig, found: KeyedPosteriors, tolerance: float = 1e-12) -> None:
    """What `fit` found is what the bus has, key by key and in all."""
    assert {key: each.n_events for key, each in found.items()} == rig.keys()
    for key, each in found.items():
        kept = rig.of_key(key)
        assert kept is not None
        there = PosteriorSnapshot(rig.spec, kept, key)
        np.testing.assert_allclose(each.posterior.natural, there.posterior.natural, rtol=tolerance)
        assert (each.key, each.n_events) == (key, there.n_events)
        assert each.n_effective == pytest.approx(there.n_effective, rel=tolerance)
        assert each.log_evidence() == pytest.approx(there.log_evidence(), rel=tolerance)
        assert each.score == (None if there.score is None else pytest.approx(there.score, rel=tolerance))
    whole = rig.whole()
    assert (found.n_events, len(found)) == (whole.n_events, whole.counts.n_keys)
    assert found.snapshot.counts.score == pytest.approx(whole.counts.score, rel=tolerance)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("forget", [None, {"half_life_events": 3.0}, {"half_life_seconds": 4.0}], ids=str)
@pytest.mark.parametrize("kind", FULL)
def test_they_are_those_of_the_bus(kind: str, forget: dict[str, float] | None, shards: int) -> None:
    data = {"timestamp": "at"} if forget == {"half_life_seconds": 4.0} else None
    key = {"field": "city", "shards": shards}
    rig = KeyedRig(keyed_spec(FULL[kind], partitions=1, key=key, data=data, forget=forget))
    rows = [{**event, "at": stamp / 1000} for _, stamp, event in stream(kind, 60, 1)]
    rig.send_events([(0, BEGIN + 20_000, row) for row in rows])
    run(rig)
    found = fit(rig.spec, iter(rows))
    assert isinstance(found, KeyedPosteriors)
    assert found.version == 15
    assert_same(rig, found)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("kind", FULL)
def test_a_pooled_prior_is_that_of_the_bus(kind: str, shards: int) -> None:
    """The bus fits it now and then; here it had all events the last time."""
    rig, sent = pooled_rig(kind, n_keys=9, shards=shards)
    found = fit(rig.spec, [event for *_, event in sent])
    assert isinstance(found, KeyedPosteriors)
    assert_same(rig, found, 1e-9)
    kept = rig.of_key("new")
    assert kept is not None
    new = found.unseen("new")
    assert (new.key, new.n_events) == ("new", 0)
    np.testing.assert_allclose(new.posterior.natural, PosteriorSnapshot(rig.spec, kept).posterior.natural, rtol=1e-9)


ROWS = [{"city": city, "k": k} for city, k in [("b", 2), (10, 1), ("b", 4), ("9", 5), (10.0, 3), ("ö", 0)]]


def counts(**more: Any) -> KeyedPosteriors:
    found = fit(keyed_spec(key={"field": "city", "shards": 2}, minibatch=2, **more), ROWS)
    assert isinstance(found, KeyedPosteriors)
    return found


def test_it_is_a_mapping_in_the_order_of_the_keys() -> None:
    found = counts()
    assert (len(found), list(found)) == (4, ["10", "9", "b", "ö"])
    assert repr(found) == "<demo version 3: 6 events of 4 keys>"
    assert "b" in found
    assert 10 in found
    assert "c" not in found
    assert None not in found
    assert found.get("c") is None
    with pytest.raises(KeyError, match="c"):
        found["c"]
    with pytest.raises(KeyError):
        found[""]


def test_a_key_has_its_own_numbers() -> None:
    found = counts()
    assert repr(found["b"]) == "<demo of 'b' version 2: 2 events, rate=2.3333>"
    assert found[10].mean["rate"] == found["10"].mean["rate"] == pytest.approx((1 + 4) / (1 + 2))
    assert {key: each.version for key, each in found.items()} == {"10": 3, "9": 2, "b": 2, "ö": 3}
    assert found["9"].frontier == {}
    assert found["9"].to_json()["key"] == "9"
    assert found.unseen("c").mean["rate"] == pytest.approx(1.0)
    assert found["b"].log_predictive({"k": 3}) < 0


def test_no_rows_give_no_keys() -> None:
    for default in ("prior", "pooled"):
        found = fit(keyed_spec(key={"field": "city", "default": default}), [])
        assert (len(found), dict(found)) == (0, {})  # type: ignore[arg-type, call-overload]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"k": 1}, "row 5: city: is missing"),
        ({"k": 1, "city": ""}, "row 5: city: is empty, must be a text of 1 to 256 bytes, or a whole number"),
        ({"k": -1, "city": "b"}, "row 5: k: must be a whole number"),
    ],
)
def test_a_bad_row_is_told_by_its_place(row: Any, text: str) -> None:
    with pytest.raises(RowError) as caught:
        fit(keyed_spec(minibatch=2), [*ROWS[:5], row])
    assert str(caught.value).startswith(text)


def test_keys_cannot_expire_where_there_are_no_records() -> None:
    with pytest.raises(ValueError, match=r"key.expire_after: goes by the timestamps of records, and rows have none"):
        fit(keyed_spec(key={"field": "city", "expire_after": 60}), ROWS)
    by_time = {"name": "demo", "key": "city", "inference": {"forget": {"half_life_seconds": 1}}}
    with pytest.raises(ValueError, match=r"needs the rows' times"):
        fit(parse_spec({**by_time, "model": {"kind": "poisson", "field": "k"}}), ROWS)
