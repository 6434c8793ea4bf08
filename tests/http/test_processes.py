"""Real processes: what `up --http` serves is what the commands print, on every bus, and it sees who lives."""

from __future__ import annotations

import json
import os
import signal
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from streaminfer import connect, load_spec
from streaminfer.http.asking import document_of_key
from tests.faults.buses import bus_url, kafka_later
from tests.faults.programs import Programs, document, free_port, programs, services, wait_for

__all__ = ["bus_url", "programs"]

pytestmark = pytest.mark.xdist_group("processes")

COIN = "{name: coin, data: {partitions: 2}, model: {kind: bernoulli, field: y}, inference: {minibatch: 10}}\n"
KEYED = COIN.replace("coin", "visits").replace("bernoulli, field: y}", "poisson, field: k}, key: city")


class Served:
    """`up --http` with some data."""

    def __init__(self, programs: Programs, url: str, spec: str, data: str) -> None:
        self.url, self.port, self.spec = url, free_port(), programs.folder / "spec.yaml"
        self.spec.write_text(spec)
        self.name = load_spec(self.spec).name
        (programs.folder / "data.csv").write_text(data)
        address = f"127.0.0.1:{self.port}"
        data_file = programs.folder / "data.csv"
        self.up = programs.start("up", self.spec, "--data", data_file, "--bus", url, "--http", address)

    def get(self, rest: str = "") -> Any:
        """The document of a path; None while there is none."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", f"/v1/posteriors/{self.name}{rest}")
            answer = connection.getresponse()
            body = answer.read()
            return json.loads(body) if answer.status == 200 else None
        except OSError:
            return None
        finally:
            connection.close()

    def wait_for_events(self, n: int) -> None:
        wait_for(lambda: (self.get() or {}).get("n_events") == n, f"{n} events over HTTP")

    def process(self, service: str) -> dict[str, Any]:
        found = [each for each in (self.get("/services") or {"services": []})["services"] if each["service"] == service]
        return found[0] if found else {"state": "", "restarts": 0}


def test_the_posterior_is_that_of_snapshot_json(programs: Programs, bus_url: str) -> None:
    """And all of the job is seen: a worker that is killed, one that is stopped, a monitor that begins anew."""
    served = Served(programs, bus_url, COIN, "y\n" + "1\n" * 70 + "0\n" * 30)
    served.wait_for_events(100)
    assert served.get() == document(served.spec, bus_url)
    wait_for(lambda: served.process("svb-worker")["state"] == "healthy", "the worker beats")
    (worker,) = services(served.up.pid, "svb-worker")
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: served.process("svb-worker")["restarts"] == 1, "it is shown as restarted")
    if bus_url.startswith("kafka"):
        return  # who lives is told the same way there
    (worker,) = services(served.up.pid, "svb-worker")
    wait_for(lambda: served.process("svb-worker")["state"] == "healthy", "it beats again")
    os.kill(worker, signal.SIGSTOP)
    begun = time.monotonic()
    wait_for(lambda: served.process("svb-worker")["state"] == "silent", "it is shown as silent", interval=0.2)
    assert time.monotonic() - begun <= 20
    os.kill(worker, signal.SIGCONT)
    check_restart(served)


def check_restart(served: Served) -> None:
    """A monitor that is killed comes back with its history."""
    wait_for(lambda: len(served.get("/history")["versions"]) > 0, "there is a history")
    time.sleep(6)  # a point is published every five seconds at most
    before = served.get("/history")
    (monitor,) = services(served.up.pid, "monitor")
    os.kill(monitor, signal.SIGKILL)
    wait_for(lambda: served.get("/history") is None, "it is gone", interval=0.02)
    wait_for(lambda: served.get() is not None, "it is back")
    wait_for(lambda: set(served.get("/history")["versions"]) >= set(before["versions"]), "nothing of it is lost")


@kafka_later
def test_a_key_is_asked_of_the_monitor(programs: Programs, bus_url: str, tmp_path: Path) -> None:
    rows = "".join(f"{i % 7},city {i % 5}/<b>\n" for i in range(100))
    served = Served(programs, bus_url, KEYED, f"k,city\n{rows}")
    served.wait_for_events(100)
    spec, key = load_spec(served.spec), "city 3/<b>"
    with connect(bus_url) as connection:
        expected = connection.snapshot(spec, key)
        assert expected is not None
        wait_for(lambda: document_of_key(spec, connection.bus, key, environ={}) is not None, "the monitor answers")
        assert document_of_key(spec, connection.bus, key, environ={}) == expected.to_json()
        assert document_of_key(spec, connection.bus, "nowhere", environ={}) is None
        printed = programs.run("snapshot", served.spec, "--key", key, "--json", "--bus", bus_url)
        assert printed.documents == [expected.to_json()]
        served.up.end()
        assert document_of_key(spec, connection.bus, key, environ={}) is None
    assert (
        programs.run("snapshot", served.spec, "--key", key, "--json", "--bus", bus_url).documents == printed.documents
    )
