"""What commands say of one event, key, word, alarm, process and letter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streaminfer import PosteriorSnapshot, fit, parse_spec
from streaminfer.cli.produce import describe as progress
from streaminfer.cli.snapshot import one_line, print_summary
from streaminfer.cli.up import Rate, describe
from streaminfer.runtime.loading.produce import Progress
from streaminfer.runtime.supervising.job import Status
from streaminfer.spec import Spec
from streaminfer.variational.drift import watching
from tests.made import changed, new_snapshot


def spec(**more: Any) -> Spec:
    return parse_spec({"name": "coin", "model": {"kind": "bernoulli", "field": "y"}, **more})


def test_the_status_line() -> None:
    keyed = spec(key="city")
    snapshot = new_snapshot(version=3, n_events=1, n_keys=1, n_dead_lettered=1)
    line = describe(keyed, Status(None, snapshot, 0, 1, 1), Rate())
    told = "coin: 1 event in the posterior, 1 dead letter, 0 to come, 0/s, 1 key, version 3, 1 process, 1 restart"
    assert line == told
    several = Status(None, changed(snapshot, n_events=2, n_keys=2, n_dead_lettered=2), 0, 2, 2)
    line = describe(keyed, several, Rate())
    assert line.startswith("coin: 2 events in the posterior, 2 dead letters, ")
    assert line.endswith(" 2 keys, version 3, 2 processes, 2 restarts")


def test_the_progress_of_a_load() -> None:
    assert "1 event, " in progress(Progress(1, 1, 1), 0, 0.0)
    assert "2 events, " in progress(Progress(2, 1, 1), 0, 0.0)


def test_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    watched = spec(drift={})
    snapshot = fit(watched, [{"y": 1}]).snapshot
    print_summary(PosteriorSnapshot(watched, replace(snapshot, drift=watching.State(256, n_alarms=1, alarm_at=1))))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("1 event; ")
    assert lines[2].startswith("drift: 1 alarm, the newest after 1 event; ")


def test_the_counts_of_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"n_lost": 2, "n_dead_lettered": 1, "n_damped": 3, "n_rejected": 4, "n_unconverged": 1_024}
    print_summary(PosteriorSnapshot(spec(), changed(fit(spec(), [{"y": 1}]).snapshot, **counts)))
    told = "1 event, 2 lost, 1 dead-lettered, 3 damped, 4 rejected, 1,024 events from steps that did not converge; "
    assert capsys.readouterr().out.splitlines()[1].startswith(told)


def test_a_line() -> None:
    assert "1 event  p " in one_line(fit(spec(), [{"y": 1}]))
    words = parse_spec({"name": "pages", "model": {"kind": "lda", "field": "words", "topics": 2}})
    assert one_line(fit(words, [{"words": ["sail"]}])).endswith("1 event  1 word")
