"""A rolling upgrade to another model: the new services wait, and the old ones stay at work."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.cli.test_services import get
from tests.faults.buses import kafka_later
from tests.faults.programs import Program, Programs, free_port, n_events, wait_for

OLD = "{name: coin, data: {partitions: 2}, model: {kind: bernoulli, field: y}, inference: {minibatch: 10}}\n"
NEW = "{name: coin, data: {partitions: 3}, model: {kind: poisson, field: y}, inference: {minibatch: 10}}\n"
DATA = "y\n" + "1\n" * 100


class Serving(NamedTuple):
    """A service and where it answers."""

    program: Program
    port: int

    @property
    def ready(self) -> bool:
        return get(self.port, "/readyz")[0] == 200


def serving(programs: Programs, service: str, spec: Path, url: str) -> Serving:
    port = free_port()
    found = Serving(programs.start("run", service, spec, "--bus", url, "--http", f"127.0.0.1:{port}"), port)
    wait_for(lambda: get(port, "/healthz")[0] == 200, f"the {service} is healthy")
    return found


@kafka_later
def test_services_of_another_spec_wait_and_take_nothing(programs: Programs, bus_url: str) -> None:
    old, new, data = (programs.folder / name for name in ("old.yaml", "new.yaml", "data.csv"))
    for file, text in ((old, OLD), (new, NEW), (data, DATA)):
        file.write_text(text)
    at_work = [serving(programs, name, old, bus_url) for name in ("master", "master", "svb-worker")]
    programs.run("produce", old, data, "--bus", bus_url)
    wait_for(lambda: n_events(old, bus_url) == 100, "the old ones learn")
    waiting = [serving(programs, name, new, bus_url) for name in ("master", "svb-worker", "monitor")]
    for each in waiting:
        wait_for(lambda each=each: "waiting, not ready" in each.program.err, "it says that it waits")
    programs.run("produce", old, data, "--bus", bus_url)
    wait_for(lambda: n_events(old, bus_url) == 200, "the old ones go on")
    for each in at_work:
        wait_for(lambda each=each: each.ready, "the old ones are ready, the standby too")
    for each in waiting:
        assert not each.ready
        assert "the posterior 'coin' on this bus was made by another spec" in each.program.err
        assert each.program.err.count("waiting, not ready") == 1
        assert each.program.end() == 0
    topics = programs.run("topics", old, "--json", "--bus", bus_url).documents
    assert topics[0]["partitions"] == 2, "the other spec has changed nothing on the bus"
