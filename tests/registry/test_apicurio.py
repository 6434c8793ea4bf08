"""A real registry: schemas are registered once, checked for compatibility, shown, and only looked up by readers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streaminfer import load_spec
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.runtime.registry import client, schemas
from streaminfer.runtime.registry.http import Conversation, RegistryError
from streaminfer.runtime.registry.settings import settings_from
from streaminfer.wire.avro import schema_text
from tests.faults.programs import Programs
from tests.registry.conftest import URL, write_data, write_spec
from tests.registry_server import Registry

pytestmark = pytest.mark.xdist_group("registry")

OTHER = {"type": "record", "name": "Snapshot", "namespace": "streaminfer", "fields": [{"name": "x", "type": "long"}]}
EARLIER = "STREAMINFER_SCHEMA_IDS"


@pytest.fixture(autouse=True)
def _environment(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL, registry.url)


def test_registration_is_idempotent_and_readers_find_it(registry: Registry, bus: EmbeddedBus, tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path, "twice"))
    assert not schemas.look_up(spec, bus, ["posterior"]).registered
    assert "twice.posterior-value" not in registry.ask("GET", "/subjects")
    first = schemas.prepare(spec, bus)
    assert first == schemas.prepare(spec, bus)
    assert {f"twice.{topic}-value": [id_] for topic, id_ in first.registered.items()} == {
        f"twice.{topic}-value": registry.ids(f"twice.{topic}-value")
        for topic in ("increments", "posterior", "metrics", "health")
    }
    assert schemas.look_up(spec, bus, ["posterior"]).registered == {"posterior": first.registered["posterior"]}


def test_many_may_register_at_once(registry: Registry) -> None:
    settings = settings_from()
    assert settings is not None
    clients = [client.Registry(Conversation(settings, 60.0)) for _ in range(4)]
    with ThreadPoolExecutor(len(clients)) as pool:
        for i in range(5):
            subject, schema = f"at-once-{i}-value", json.dumps({**OTHER, "name": f"AtOnce{i}"})
            found = pool.map(lambda each, about=(subject, schema): each.register(*about), clients)
            assert set(found) == set(registry.ids(subject))


def test_a_schema_that_differs_in_words_is_read_too(registry: Registry, bus: EmbeddedBus, tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path, "words"))
    document = json.loads(schema_text("posterior"))
    old = registry.register("words.posterior-value", {**document, "doc": "of an earlier release"})
    reader = schemas.look_up(spec, bus, ["posterior"])
    assert reader.registered == {"posterior": old}
    writer = schemas.prepare(spec, bus)
    assert writer.registered["posterior"] != old
    assert writer.earlier["posterior"] == {old, writer.registered["posterior"]}


def test_an_incompatible_subject_is_an_error(registry: Registry, told: Programs, bus: EmbeddedBus) -> None:
    path = write_spec(told.folder, "odd")
    registry.register("odd.posterior-value", OTHER)
    registry.ask("PUT", "/config/odd.posterior-value", {"compatibility": "BACKWARD"})
    with pytest.raises(RegistryError, match=r"odd\.posterior-value that ours is not compatible with .*manifest"):
        schemas.prepare(load_spec(path), bus)
    found = told.run("up", path, "--until-idle", "--bus", f"embedded:{told.folder / 'up'}", code=1)
    assert "odd.posterior-value that ours is not compatible with" in found.err
    assert "Traceback" not in found.err
    bus.close()
    rows = told.run("topics", path, "--json", "--bus", f"embedded:{told.folder / 'bus'}").documents
    assert rows[2]["schema"].startswith("incompatible: ")
    assert rows[2]["schema_id"] is None
    assert rows[1]["schema"] == "registered"
    assert len(registry.ids("odd.posterior-value")) == 1


def test_topics_show_subject_id_and_status(registry: Registry, told: Programs) -> None:
    path, url = write_spec(told.folder, "shown"), f"embedded:{told.folder / 'bus'}"
    EmbeddedBus(told.folder / "bus").close()
    header, *lines = told.run("topics", path, "--bus", url).out.splitlines()
    assert header.split()[-2:] == ["schema_id", "schema"]
    assert [line.endswith("not registered") for line in lines] == [False, True, True, False, True, True]
    rows = told.run("topics", path, "--apply", "--json", "--bus", url).documents
    told_of = ["increments", "posterior", "metrics", "health"]
    assert [row["subject"] for row in rows if row["schema"]] == [f"shown.{each}-value" for each in told_of]
    assert [row["schema"] for row in rows] == [None, "registered", "registered", None, "registered", "registered"]
    with_schema = [row for row in rows if row["schema"]]
    assert [[row["schema_id"]] for row in with_schema] == [registry.ids(row["subject"]) for row in with_schema]


def test_a_reader_says_what_is_wrong_with_the_registry(told: Programs, tmp_path: Path) -> None:
    path, url = write_spec(told.folder, "lost"), f"embedded:{told.folder / 'bus'}"
    told.run("topics", path, "--apply", "--bus", url)
    told.environment[URL] = "http://127.0.0.1:1"
    found = told.run("snapshot", path, "--bus", url, code=1)
    assert f"schema registry http://127.0.0.1:1 ({URL}) does not answer" in found.err
    told.environment[URL] = "http://ann:s3cret@127.0.0.1:1"
    found = told.run("snapshot", path, "--bus", url, code=2)
    assert "USERNAME" in found.err
    assert "s3cret" not in found.err


@pytest.mark.long
def test_switched_on_and_off_in_the_life_of_a_posterior(registry: Registry, told: Programs) -> None:
    for i in range(20):  # so that no id which the registry gives is one of ours by chance
        registry.register(f"life-others-{i}-value", {**OTHER, "name": f"Other{i}"})
    path, url = write_spec(told.folder, "life"), f"embedded:{told.folder / 'bus'}"
    up = ["up", path, "--data", write_data(told.folder, 300), "--workers", 2, "--until-idle", "--bus", url]
    del told.environment[URL]
    told.run(*up)
    told.environment[URL] = registry.url
    (found,) = told.run("snapshot", path, "--json", "--bus", url).documents
    assert found["n_events"] == 300
    assert "life.posterior-value" not in registry.ask("GET", "/subjects"), "a reader has registered"
    told.run(*up)
    (given,) = registry.ids("life.posterior-value")
    (found,) = told.run("snapshot", path, "--json", "--bus", url).documents
    assert found["n_events"] == 600
    assert told.run("dead-letters", path, "--json", "--bus", url).documents == []

    del told.environment[URL]
    lost = told.run("run", "master", path, "--bus", url, code=1)
    assert f"schema id {given} is not the 7 or 9 or 12 or 17 of this topic" in lost.err
    assert "with a schema registry that is not set here" in lost.err
    told.environment[EARLIER] = f"posterior={given}"
    told.run(*up)
    (found,) = told.run("snapshot", path, "--json", "--bus", url).documents
    assert found["n_events"] == 900
    del told.environment[EARLIER]
    assert told.run("snapshot", path, "--json", "--bus", url).documents == [found]
