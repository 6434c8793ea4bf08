"""What the paths answer, and that it is what the commands print."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Output
from streaminfer.http.answering.job_metrics import JobMetrics
from streaminfer.http.server import serve
from streaminfer.measuring.measurement import Measurement, Value
from streaminfer.measuring.published import Moment, Published
from streaminfer.runtime import names
from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.monitoring.pulse import Pulse
from streaminfer.runtime.running.health import Health
from streaminfer.runtime.telemetry import MasterMetrics, UpMetrics
from streaminfer.wire import measurements
from tests.http.site import KEYS, SCRIPT, Site, by_city, counted, site_of


def test_the_document_is_that_of_snapshot_json(site: Site) -> None:
    found = Connection(site.rig.bus).snapshot(site.rig.spec)
    assert found is not None
    answer = site.ask(site.one)
    assert (answer.status, answer.kind) == (200, "application/json")
    assert answer.document == found.to_json()
    assert answer.document["n_events"] == 10


@pytest.mark.parametrize("key", KEYS)
def test_the_document_of_a_key_is_that_of_snapshot_json(cities: Site, key: str) -> None:
    found = Connection(cities.rig.bus).snapshot(cities.rig.spec, key)
    assert found is not None
    answer = cities.ask(f"{cities.one}/keys/{quote(key, safe='')}")
    assert answer.status == 200
    assert answer.document == found.to_json()
    assert answer.document["key"] == key
    assert answer.kind == "application/json"


def test_keys_are_listed_in_pages(cities: Site) -> None:
    expected = [each._asdict() for each in Connection(cities.rig.bus).keys(cities.rig.spec)]
    found: list[Any] = []
    after = ""
    for _ in range(len(KEYS)):
        page = cities.ask(f"{cities.one}/keys?limit=2{after}").document
        found += page["keys"]
        if page["next"] is None:
            break
        after = f"&after={quote(page['next'], safe='')}"
    assert found == expected
    assert [each["key"] for each in found] == sorted(KEYS, key=str.encode)
    assert cities.ask(cities.one).document["keys"] == expected


@pytest.mark.parametrize("key", ["paris", "..", "%2e%2e%2f%2e%2e", "a%2Fc", quote(SCRIPT + "x", safe="")])
def test_other_keys_are_not_found(cities: Site, key: str) -> None:
    answer = cities.ask(f"{cities.one}/keys/{key}")
    assert (answer.status, answer.kind) == (404, "application/problem+json")
    assert answer.document["field"] == "key"


@pytest.mark.parametrize("path", ["keys/a/b", "keys/../verdict", "../../etc/passwd", "keys/x/../../..", "keys//"])
def test_a_path_is_never_walked(cities: Site, path: str) -> None:
    assert cities.ask(f"{cities.one}/{path}").status == 404


def test_unchanged_documents_are_not_sent_again(site: Site, cities: Site) -> None:
    for here, path in ((site, site.one), (cities, cities.one), (cities, f"{cities.one}/keys/berlin"), (site, "/")):
        etag = here.ask(path).headers["etag"]
        for given in (etag, f'"x", W/{etag}', "*"):
            again = here.ask(path, headers={"If-None-Match": given})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
        assert here.ask(path, headers={"If-None-Match": '"x"'}).status == 200


def test_a_new_version_has_a_new_etag() -> None:
    with site_of(counted()) as site:
        before = site.ask(site.one)
        site.add(1, 2, 3, 4)
        after = site.ask(site.one, headers={"If-None-Match": before.headers["etag"]})
        assert (after.status, after.document["n_events"]) == (200, 14)
        assert after.headers["etag"] != before.headers["etag"]


def test_history_has_means_and_intervals_of_every_version_kept(site: Site) -> None:
    found = site.ask(f"{site.one}/history").document
    newest = site.ask(site.one).document
    rate = found["parameters"]["rate"]
    assert found["versions"][-1] == newest["version"]
    assert found["n_events"][-1] == 10
    mean, sd = newest["parameters"]["rate"]["mean"], newest["parameters"]["rate"]["sd"]
    assert rate["mean"][-1] == mean
    np.testing.assert_allclose([rate["lower"][-1], rate["upper"][-1]], [mean - 1.96 * sd, mean + 1.96 * sd], rtol=1e-4)
    assert found["coordinates"] == ["rate"]
    assert site.ask(f"{site.one}/history?parameter=rate").document["parameters"].keys() == {"rate"}
    assert site.ask(f"{site.one}/history?parameter=rates").status == 404
    assert site.ask(f"{site.one}/history?since={newest['version']}").document["versions"] == []


def test_draws_are_those_of_the_seed(site: Site, cities: Site) -> None:
    found = Connection(site.rig.bus).snapshot(site.rig.spec)
    assert found is not None
    answer = site.ask(f"{site.one}/sample?n=50&seed=7").document
    expected = found.sample(np.random.default_rng(7), 50)["rate"]
    assert (answer["n"], answer["seed"], answer["draws"]["rate"]) == (50, 7, expected.tolist())
    assert cities.ask(f"{cities.one}/sample").document["field"] == "key"
    assert len(cities.ask(f"{cities.one}/sample?n=3&key=a%2Fb").document["draws"]["rate"]) == 3


def test_predictions_are_those_of_the_predict_command(site: Site, cities: Site) -> None:
    found = Connection(site.rig.bus).snapshot(site.rig.spec)
    assert found is not None
    answer = site.post(f"{site.one}/predict", {"rows": [{}, {"k": 1}], "interval": 0.5}).document
    assert [row["row"] for row in answer["predictions"]] == [0, 1]
    assert answer["predictions"][0]["mean"] == pytest.approx(found.mean["rate"])
    keyed = cities.post(f"{cities.one}/predict", {"rows": [{"city": "a/b"}, {"city": "paris"}, {}]}).document
    first, second, third = keyed["predictions"]
    a_b = Connection(cities.rig.bus).snapshot(cities.rig.spec, "a/b")
    assert a_b is not None
    assert (first["key"], first["known"], first["mean"]) == ("a/b", True, pytest.approx(a_b.mean["rate"]))
    assert (second["key"], second["known"]) == ("paris", False)
    assert "city" in third["error"]
    of_one = cities.post(f"{cities.one}/predict", {"rows": [{}], "key": "a/b"}).document
    assert of_one["predictions"][0]["mean"] == first["mean"]


def test_dead_letters_are_texts_newest_first(site: Site) -> None:
    found = site.ask(f"{site.one}/dead-letters")
    assert found.kind == "application/json"
    values = [letter["value"] for letter in found.document["dead_letters"]]
    assert values == ['{"k": "<script>alert(1)</script>"}', SCRIPT]
    first = site.ask(f"{site.one}/dead-letters?limit=1").document
    rest = site.ask(f"{site.one}/dead-letters?limit=1&after={first['next']}").document
    assert (first["dead_letters"] + rest["dead_letters"], rest["next"]) == (found.document["dead_letters"], None)


def test_before_there_is_a_posterior_it_says_so() -> None:
    with site_of(by_city()) as site:
        site.memory.posterior = None
        answer = site.ask(site.one)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.document["progress"].keys() == {"read", "total"}
        site.memory.keys = None
        assert site.ask(f"{site.one}/keys/berlin").status == 503


def test_paths_of_another_posterior_are_not_found(site: Site) -> None:
    for rest in ("", "/verdict", "/history", "/keys", "/keys/a", "/sample", "/metrics", "/services", "/dead-letters",
                 "/events"):  # fmt: skip
        answer = site.ask(f"/v1/posteriors/other{rest}")
        assert (answer.status, answer.document["field"]) == (404, "name")


def test_a_monitor_says_which_it_is(site: Site) -> None:
    assert site.ask("/healthz").headers["streaminfer-monitor"] == "monitor-0"
    assert site.ask("/nowhere").headers["streaminfer-monitor"] == "monitor-0"


def test_health_paths(site: Site) -> None:
    assert site.ask("/healthz").body == b"ok\n"
    assert site.ask("/readyz").body == b"ready\n"
    assert site.ask("/metrics").status == 200


def test_the_verdict_has_reasons_and_remedies(site: Site) -> None:
    found = site.ask(f"{site.one}/verdict").document
    assert found["verdict"] == "do_not_trust", "a sixth of all events are dead letters"
    questions = {reason["question"] for reason in found["reasons"]}
    assert questions == {"fresh", "complete", "computed_right", "fits_the_data"}
    worst = [reason for reason in found["reasons"] if reason["status"] == "fail"]
    assert [reason["question"] for reason in worst] == ["complete"]
    assert "dead-letters" in worst[0]["remedy"]


def test_services_and_measurements_come_from_the_bus() -> None:
    with site_of(counted()) as site:
        spec, bus = site.rig.spec, site.rig.bus
        pulse = Pulse(spec, bus, "master", "master-0", CollectorRegistry(), clock=site.rig.clock, wall=site.rig.clock)
        pulse.tick(True)
        moment = Moment(1, n_events=10)
        measured = Measurement("coverage", "watch", "It holds 80%.", values=(Value("coverage", "rate", 0.8, 0.01),))
        key, data = measurements.encode(Published(spec.fingerprint, "m", 1000, moment, measured), 1 << 20)
        bus.publish([Output(names.topic(spec, "metrics"), data, key)])
        site.watch(2)
        (process,) = site.ask(f"{site.one}/services").document["services"]
        assert (process["service"], process["state"], process["restarts"]) == ("master", "healthy", 0)
        (check,) = site.ask(f"{site.one}/metrics?check=coverage").document["measurements"]
        assert (check["status"], check["values"][0]["value"]) == ("watch", 0.8)
        assert site.ask(f"{site.one}/metrics?check=stein").document["measurements"] == []
        site.rig.clock.advance(20.0)
        site.watch(1)
        assert site.ask(f"{site.one}/services").document["services"][0]["state"] == "silent"


def test_prometheus_takes_the_metrics_of_a_job() -> None:
    """Also what other processes have counted, and the word of a supervisor."""
    with site_of(counted()) as site:
        for service in ("up", "master"):
            registry = CollectorRegistry()
            counters = UpMetrics(registry, "demo") if service == "up" else MasterMetrics(registry, "demo")
            assert counters is not None
            clock = site.rig.clock
            Pulse(site.rig.spec, site.rig.bus, service, None, registry, clock=clock, wall=clock).tick(True)
        site.health.registry.register(JobMetrics([site.memory]))
        site.watch(2)
        page = site.ask("/metrics").body
    assert b"streaminfer_service_healthy{" in page
    assert b'service="master"} 1.0' in page
    assert b"streaminfer_up_behind{" in page
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_one_monitor_serves_several_posteriors(site: Site, cities: Site) -> None:
    memories = [Memory(replace(each.memory.spec, name=name), "m") for each, name in ((site, "a"), (cities, "b"))]
    memories[0].posterior = site.memory.posterior
    with serve(memories, Health(CollectorRegistry()), "127.0.0.1", 0, None) as server:
        both = Site(site.job, memories[0], site.monitor, site.health, server)
        assert [each["name"] for each in both.ask("/v1/posteriors").document["posteriors"]] == ["a", "b"]
        assert both.ask("/v1/posteriors/a").body == site.ask(site.one).body
        assert (both.ask("/v1/posteriors/b").status, both.ask("/v1/posteriors/demo").status) == (503, 404)
