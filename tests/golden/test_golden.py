"""Buses that an earlier version wrote are restored and continued: every record is the same, byte for byte.

If a topic has a newer schema since, golden records are compared as they are in that: all their fields, to the byte.

Golden data is never made anew to make one of these pass: see README.md beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.golden import records
from tests.golden.__main__ import run
from tests.golden.buses import Buses, Embedded, Kafka
from tests.golden.driving import in_present_schema
from tests.golden.kinds import stories

ON_KAFKA = ("keyed_pooled_bounded", "lda_sharded", "logistic_svi", "window_events")
"""One of each kind of table, and one with several passes; `make test-long` has all."""
REST = sorted(set(records.kinds()) - set(ON_KAFKA))

REWORDED: tuple[tuple[str, str], ...] = (("no rows: ", "not rows: "), ("no rows, but JSON: ", "not rows, but JSON: "))
"""(in the golden data, now): parts of the reasons of dead letters, which are prose and may be put in better words."""

REFITTED = {"keyed_pooled": '{"alpha": '}
"""Kinds whose pooled priors were worth up to a million events, and how such a prior begins in a manifest. A present
version fits weaker ones: these buses are restored and continued, and all but the manifests with a prior is the same."""


def play(folder: Path, *arguments: str) -> dict[str, Any]:
    run("play", *arguments, "--to", str(folder / "answer"))
    found: dict[str, Any] = json.loads((folder / "answer").read_text())
    return found


@pytest.fixture(scope="module")
def on_embedded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All kinds in one process, as half of the time it is loaded."""
    return play(tmp_path_factory.mktemp("embedded"))


@pytest.fixture(scope="module")
def on_kafka(tmp_path_factory: pytest.TempPathFactory, kafka_address: str) -> dict[str, Any]:
    return play(tmp_path_factory.mktemp("kafka"), "--kafka", kafka_address, *ON_KAFKA)


@pytest.fixture(scope="module")
def rest_on_kafka(tmp_path_factory: pytest.TempPathFactory, kafka_address: str) -> dict[str, Any]:
    return play(tmp_path_factory.mktemp("rest"), "--kafka", kafka_address, *REST)


def test_there_is_golden_data_of_every_kind() -> None:
    assert records.kinds() == sorted(stories())


@pytest.mark.xdist_group("golden-embedded")
@pytest.mark.parametrize("kind", records.kinds())
def test_an_embedded_bus_is_continued(kind: str, on_embedded: dict[str, Any]) -> None:
    check(kind, Embedded(), on_embedded[kind])


@pytest.mark.xdist_group("golden-kafka")
@pytest.mark.parametrize("kind", ON_KAFKA)
def test_kafka_topics_are_continued(kind: str, on_kafka: dict[str, Any], kafka_address: str) -> None:
    check(kind, Kafka(kafka_address), on_kafka[kind])


@pytest.mark.long
@pytest.mark.timeout(1200)  # the first waits for all of them
@pytest.mark.xdist_group("golden-kafka-rest")
@pytest.mark.parametrize("kind", REST)
def test_the_other_kafka_topics_are_continued(kind: str, rest_on_kafka: dict[str, Any], kafka_address: str) -> None:
    check(kind, Kafka(kafka_address), rest_on_kafka[kind])


def check(kind: str, buses: Buses, found: dict[str, Any]) -> None:
    """What was written on the restored bus, and on a new one with the same events."""
    assert "fault" not in found, found["fault"]
    folder = records.FOLDER / kind
    continued = records.load_lines(folder / f"{buses.name}.continued.xz")
    same(found["continued"], continued, REFITTED.get(kind))
    if "made" in found:
        story = records.load_story(folder / "story.xz")
        same(found["made"], buses.held(story, folder / f"{buses.name}.bus.xz"), REFITTED.get(kind))


def same(found: Sequence[Any], golden: Sequence[Any], prior: str | None = None) -> None:
    """Tells of the first record that differs, as all would be pages; values with a refitted prior may."""
    for ours, theirs in zip(found, map(as_now, golden), strict=False):
        refitted = prior is not None and all(prior in (record[-1] or "") for record in (ours, theirs))
        end = -1 if refitted else None
        assert ours[:end] == theirs[:end], f"{theirs[0]}-{theirs[1]} offset {theirs[2]} differs"
    assert len(found) == len(golden)


def as_now(line: list[Any]) -> list[Any]:
    """A golden record in the present schema of its topic, with the reason of a dead letter as it reads now."""
    *before, headers, value = line
    if value is not None:
        value = in_present_schema(line[0], value.encode("latin-1")).decode("latin-1")
    return [*before, [[name, now(text) if name == "streaminfer-reason" else text] for name, text in headers], value]


def now(reason: str) -> str:
    for old, new in REWORDED:
        reason = reason.replace(old, new)
    return reason
