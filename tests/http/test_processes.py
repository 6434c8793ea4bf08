"""Real processes: what `up --http` serves is what the commands print, on every bus, and it sees who lives."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from streaminfer import connect, load_spec
from streaminfer.http.asking import document_of_key
from streaminfer.runtime.loading.produce import publish_rows
from streaminfer.runtime.monitoring.memory.history import CHECK
from streaminfer.runtime.monitoring.notes import Notes
from streaminfer.wire import measurements
from tests.faults.buses import bus_url, kafka_later
from tests.faults.programs import TIMEOUT, Programs, document, free_port, programs, services, wait_for
from tests.http.browsing import BLANK, Visit, visit

__all__ = ["bus_url", "programs"]

pytestmark = pytest.mark.xdist_group("browser")

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


def test_what_is_served_is_what_commands_print_and_who_lives_is_seen(
    chromium: Any, programs: Programs, bus_url: str
) -> None:
    """Also on the page: new data, a worker that is killed, one that is stopped, a monitor that begins anew."""
    served = Served(programs, bus_url, COIN, "y\n" + "1\n" * 70 + "0\n" * 30)
    with visit(chromium, BLANK) as seen:
        seen.page.set_default_timeout(1000 * TIMEOUT)
        seen.open(f"http://127.0.0.1:{served.port}/", lambda: served.up.alive)
        seen.wait("#about", "100 events")
        found = document(served.spec, bus_url)
        assert served.get() == found
        cells = seen.page.locator("#parameters tbody td").all_inner_texts()
        assert [float(each) for each in cells[1:3]] == pytest.approx(
            [found["parameters"]["p"][each] for each in ("mean", "sd")], rel=1e-3
        )
        assert min(check_news(served, seen, n) for n in (110, 120, 130)) <= 2.0
        check_killed_worker(served, seen)
        if bus_url.startswith("embedded"):  # who lives is told the same way on both
            check_stopped_worker(served, seen)
            check_restart(served, seen)
        assert [text for text in seen.said if "net::ERR" not in text and "502" not in text] == []
        assert seen.hosts == {f"127.0.0.1:{served.port}"}


def check_news(served: Served, seen: Visit, n: int) -> float:
    """Seconds from the snapshot that has ten more events to the page that shows it."""
    with connect(served.url) as connection:
        publish_rows(load_spec(served.spec), connection.bus, [{"y": 1}] * 10)
    seen.wait("#about", f"{n} events")
    shown = time.time()
    made = datetime.fromisoformat((served.get() or {})["created_at"]).timestamp()
    return shown - made


def check_killed_worker(served: Served, seen: Visit) -> None:
    wait_for(lambda: served.process("svb-worker")["state"] == "healthy", "the worker beats")
    (worker,) = services(served.up.pid, "svb-worker")
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: served.process("svb-worker")["restarts"] == 1, "it is shown as restarted")
    seen.wait(f"{ROW} td:nth-child(5)", "1")
    wait_for(lambda: served.process("svb-worker")["state"] == "healthy", "it beats again")


ROW = "#flow tbody tr:has-text('svb-worker')"


def check_stopped_worker(served: Served, seen: Visit) -> None:
    (worker,) = services(served.up.pid, "svb-worker")
    os.kill(worker, signal.SIGSTOP)
    begun = time.monotonic()
    wait_for(lambda: served.process("svb-worker")["state"] == "silent", "it is shown as silent", interval=0.2)
    assert time.monotonic() - begun <= 20
    seen.wait(ROW, "silent")
    os.kill(worker, signal.SIGCONT)


def check_restart(served: Served, seen: Visit) -> None:
    """A monitor that is killed comes back with its history."""
    wait_for(lambda: published(served) == served.get()["version"], "the newest point is published")
    before = served.get("/history")
    (monitor,) = services(served.up.pid, "monitor")
    os.kill(monitor, signal.SIGKILL)
    wait_for(lambda: served.get("/history") is None, "it is gone", interval=0.02)
    wait_for(lambda: served.get() is not None, "it is back")
    wait_for(lambda: set(served.get("/history")["versions"]) >= set(before["versions"]), "nothing of it is lost")
    seen.page.locator("#banner").wait_for(state="hidden")
    seen.wait("#about", "130 events")


def published(served: Served) -> int:
    """The version of the newest point of the history on the bus."""
    spec = load_spec(served.spec)
    with connect(served.url) as connection:
        notes = Notes(spec, connection.bus, topics=[measurements.TOPIC])
        notes.catch_up()
        notes.close()
    found = [each.moment.version for (check, _), each in notes.measured.items() if check == CHECK]
    return max(found, default=0)


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
