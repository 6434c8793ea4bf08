"""`run` and its health paths, `up` if nothing can work, and `demo`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.wire import beats, snapshots
from tests.cli.conftest import SPEC, Workplace
from tests.contracts.bus_harness import read_all
from tests.faults.programs import Program, Programs, free_port, wait_for
from tests.made import new_snapshot

pytestmark = pytest.mark.xdist_group("processes")


def get(port: int, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Status and text; 0 without an answer."""
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", headers=dict(headers or {})), timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def no_process_is_left(program: Program) -> bool:
    """Whether the process group of a program that ended is empty."""
    try:
        os.killpg(program.pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_services_serve_their_health(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    ports = {"svb-worker": free_port(), "master": free_port()}
    worker = programs.start(
        "run", "svb-worker", workplace.spec, "--bus", bus_url, "--http", f"127.0.0.1:{ports['svb-worker']}"
    )
    wait_for(lambda: get(ports["svb-worker"], "/healthz") == (200, "ok\n"), "the worker is healthy")
    assert get(ports["svb-worker"], "/readyz") == (503, "not ready\n"), "without a master there is no frontier"
    programs.environment["STREAMINFER_HTTP_TOKEN"] = "secret"  # noqa: S105 (no secret)
    master = programs.start("run", "master", workplace.spec, "--bus", bus_url, "--http", f"127.0.0.1:{ports['master']}")
    for port in ports.values():
        wait_for(lambda port=port: get(port, "/readyz") == (200, "ready\n"), "both are ready")
    assert 'streaminfer_worker_partitions{posterior="coin"} 2.0' in get(ports["svb-worker"], "/metrics")[1]
    assert get(ports["master"], "/metrics")[0] == 401
    status, page = get(ports["master"], "/metrics", {"Authorization": "Bearer secret"})
    assert (status, 'streaminfer_master_version{posterior="coin"} 1.0' in page) == (200, True)
    assert get(ports["master"], "/etc/passwd")[0] == 404
    for program in (worker, master):
        assert program.end(signal.SIGINT) == 0
        assert program.out == program.err == ""
    with open_bus(bus_url) as bus:
        found = read_all(bus, "coin.health")
    assert {beats.decode(each.key, each.value).service for each in found if each.value} == {"svb-worker", "master"}
    assert [each.value for each in found[-2:]] == [None, None], "both said that they end"


def test_one_monitor_serves_several_posteriors(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    port, other = free_port(), workplace.folder / "second.yaml"
    other.write_text(SPEC.replace("coin", "second"))
    monitor = programs.start(
        "run", "monitor", workplace.spec, other, "--bus", bus_url, "--http", f"127.0.0.1:{port}"
    )  # fmt: skip
    for name in ("coin", "second"):
        line = f'streaminfer_monitor_verdict{{posterior="{name}"}} 1.0'
        wait_for(lambda line=line: line in get(port, "/metrics")[1], "both are judged")
    wait_for(lambda: get(port, "/readyz") == (200, "ready\n"), "both are ready")
    assert monitor.end(signal.SIGINT) == 0
    assert monitor.out == monitor.err == ""


def test_up_serves_its_health(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    port = free_port()
    up = programs.start("up", workplace.spec, "--data", workplace.data, "--bus", bus_url, "--http", f"127.0.0.1:{port}")
    line = 'streaminfer_up_events{posterior="coin"} 100.0'
    wait_for(lambda: line in get(port, "/metrics")[1], "the posterior has all events")
    assert get(port, "/readyz") == (200, "ready\n")
    assert up.end() == 0
    assert up.out == ""


def test_a_port_that_is_taken(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    port = free_port()
    first = programs.start("run", "master", workplace.spec, "--bus", bus_url, "--http", f"127.0.0.1:{port}")
    wait_for(lambda: get(port, "/healthz")[0] == 200, "the first one is healthy")
    again = ("run", "master", workplace.spec, "--bus", bus_url, "--http", f"127.0.0.1:{port}")
    message = programs.run(*again, code=1).err
    assert "Address already in use" in message
    assert "Traceback" not in message
    assert first.alive


@pytest.mark.parametrize("command", [("up",), ("snapshot",), ("produce",)])
def test_a_posterior_of_another_spec_is_refused(
    workplace: Workplace, prepared_url: str, command: tuple[str, ...]
) -> None:
    other = workplace.folder / "other.yaml"
    other.write_text(SPEC.replace("field: y", "field: z"))
    file = [workplace.data] if command == ("produce",) else []
    program = workplace.programs.run(*command, other, *file, "--bus", prepared_url, code=1)
    assert "the posterior 'coin' on this bus was made by another spec" in program.err
    assert "give the spec a new name, or use another bus" in program.err
    assert "Traceback" not in program.err
    assert program.out == ""
    assert no_process_is_left(program)


def test_up_gives_up_where_its_services_cannot_work(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    """A posterior that has seen more than the log ever had: nothing that a restart could mend."""
    spec = load_spec(workplace.spec)
    ahead = new_snapshot(
        fingerprint=spec.fingerprint, version=1, statistics=spec.model.empty(), positions={0: 500, 1: 500}
    )
    about = snapshots.About("coin", "bernoulli", "beta", "svb", "exact")
    with open_bus(bus_url) as bus:
        names.create_topics(spec, bus)
        records = snapshots.encode(ahead, np.ones(2), about, bus.max_record_bytes)
        bus.publish([Output("coin.posterior", value, key, 0) for key, value in records])
    program = programs.run("up", workplace.spec, "--bus", bus_url, code=1)
    assert "failed 5 times without progress" in program.err
    assert "Use a new spec name for a new log" in program.err
    assert "Traceback" not in program.err
    assert no_process_is_left(program)


def test_the_demo_ends_with_the_exact_answer(programs: Programs) -> None:
    program = programs.run("demo", "--events", 2000, "--seconds", 2, "--kills", 2)
    assert "2,000 parcels, 2 kills" in program.out
    assert "(exact, at most 1e-9)" in program.out
    assert no_process_is_left(program)
