"""Events of steps that did not converge are counted, from the worker's step to what people and machines are shown."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer import PosteriorSnapshot, fit
from streaminfer.cli.snapshot import print_summary
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.lda import learning
from streaminfer.wire.errors import BadValue
from streaminfer.wire.increments import decode
from tests.runtime.rig import Rig
from tests.wire.messages import increment_record

VALUES = [0.1, 5.0, 0.3, 4.6, 5.2, -0.2, 0.4, 5.5, 4.9, 0.0]


def mixture(iterations: int | None = 1, **inference: Any) -> Spec:
    """One turn of coordinate ascent never converges."""
    settings = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1, "max_staleness": 0, **inference}
    model = {"kind": "gaussian_mixture", "fields": ["k"], "components": 2}
    return parse_spec(
        {"name": "demo", "data": {"partitions": 1}, "model": model,
         "inference": {**settings, "local_iterations": iterations}}
    )  # fmt: skip


def test_from_the_increment_to_the_snapshot_its_document_and_the_metric(capsys: pytest.CaptureFixture[str]) -> None:
    rig = Rig(mixture())
    rig.send(*VALUES[:4], b"no event", *VALUES[4:7])
    rig.run(rig.worker(), rig.master(), rounds=20)
    assert [each["n_unconverged"] for each in rig.increments()] == [4, 3]
    found = rig.snapshot()
    assert (found.n_events, found.counts.n_unconverged) == (7, 7)
    shown = PosteriorSnapshot(rig.spec, found)
    assert shown.to_json()["n_unconverged"] == 7
    assert rig.value("master_unconverged") == 7
    rig.run(rig.master(), rounds=2)
    assert rig.snapshot().counts.n_unconverged == 7, "another master restores it"
    print_summary(shown)
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("7 events, 1 dead-lettered, 7 events from steps that did not converge; ")


def test_one_event_and_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(fit(mixture(), [{"k": 1.0}]))
    assert ", 1 event from steps that did not converge; " in capsys.readouterr().out
    found = fit(mixture(500), [{"k": value} for value in VALUES])
    assert found.to_json()["n_unconverged"] == 0
    print_summary(found)
    assert "converge" not in capsys.readouterr().out


@pytest.mark.parametrize("count", [-1, 4])
def test_no_increment_has_more_than_its_events(count: int) -> None:
    assert decode(increment_record(n_unconverged=3)).value["n_unconverged"] == 3
    with pytest.raises(BadValue, match=f"n_unconverged must be 0 to the 3 events .got {count}."):
        decode(increment_record(n_unconverged=count))


@pytest.mark.parametrize("inference", [{"method": "svi"}, {"method": "memoized", "epochs": 2}])
def test_documents_that_used_up_their_turns_are_counted(
    inference: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By svi, and by memoized in a later pass, each document is fitted once to topics that stay."""
    spec = parse_spec({"name": "demo", "model": {"kind": "lda", "field": "w", "topics": 2}, "inference": inference})
    rows = [{"w": ["a", "b"]}, {"w": ["c", "d", "a"]}, {"w": ["b", "b", "c"]}]
    assert fit(spec, rows).snapshot.counts.n_unconverged == 0
    monkeypatch.setattr(learning, "MOST", 1)
    assert fit(spec, rows).snapshot.counts.n_unconverged == 3
