"""The write-ahead log of the embedded bus is deleted: no process goes on as if nothing had happened."""

from __future__ import annotations

import pytest

from streaminfer.bus.sqlite.store import FILE_NAME
from tests.faults.answers import poisson
from tests.faults.programs import Program, Programs, document, n_events, wait_for

EVENTS = 100_000


class Bus:
    """An embedded bus at work, with its files."""

    def __init__(self, programs: Programs) -> None:
        self.programs, self.case = programs, poisson(EVENTS)
        self.folder = programs.folder / "bus"
        self.url = f"embedded:{self.folder}"
        self.wal, self.state = (self.folder / f"{FILE_NAME}-{end}" for end in ("wal", "state"))
        self.spec = self.case.write_spec(programs.folder / "spec.yaml", "wal", minibatch=50, snapshot_ms=50)
        self.data = self.case.write_csv(programs.folder / "data.csv")

    def begin(self) -> Program:
        """`up` with some events in the posterior, and more to come."""
        up = self.programs.start("up", self.spec, "--workers", 2, "--data", self.data, "--bus", self.url)
        wait_for(lambda: n_events(self.spec, self.url) > 5000, "the first rows are absorbed", interval=0.1)
        return up

    def is_refused(self) -> None:
        """By every command, with the file and the remedy."""
        for command in (["up", self.spec, "--until-idle"], ["snapshot", self.spec], ["produce", self.spec, self.data]):
            said = self.programs.run(*command, "--bus", self.url, code=1).err
            assert "Traceback" not in said
            assert f"{FILE_NAME}-wal is missing" in said
            assert f"remove {self.state}" in said

    def ends_exactly(self) -> None:
        """All rows of the file, each once: its place in the file goes back with everything else."""
        self.programs.run(
            "up", self.spec, "--workers", 2, "--data", self.data, "--until-idle", "--bus", self.url, timeout=300
        )
        self.case.check(document(self.spec, self.url))


@pytest.fixture
def bus(programs: Programs) -> Bus:
    return Bus(programs)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("then", ["put back", "accepted"])
def test_deleted_while_nothing_runs(bus: Bus, then: str) -> None:
    bus.begin().destroy()
    aside = bus.wal.rename(bus.folder.parent / "aside")
    bus.is_refused()
    if then == "put back":
        aside.rename(bus.wal)
        assert n_events(bus.spec, bus.url) > 5000
    else:
        bus.state.unlink()
    bus.ends_exactly()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ends", [("wal",), ("wal", "shm")], ids="-".join)
def test_deleted_while_services_run(bus: Bus, ends: tuple[str, ...]) -> None:
    up = bus.begin()
    for end in ends:
        (bus.folder / f"{FILE_NAME}-{end}").unlink()
    assert up.process.wait(120) == 1, up.err
    assert "Traceback" not in up.err
    assert f"{FILE_NAME}-wal was removed or replaced while the bus was in use" in up.err
    bus.is_refused()
    bus.state.unlink()
    bus.ends_exactly()
