"""The registry away: services wait for it at their start, and do not miss it later."""

from __future__ import annotations

import os
import signal
import time
import uuid

import pytest

from tests.faults.programs import Programs, services, wait_for
from tests.registry.conftest import URL, write_data, write_spec
from tests.registry_server import local_registry

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("registry")]


def test_away_at_the_start_and_killed_later(programs: Programs, kafka_address: str) -> None:
    path, url = write_spec(programs.folder, "away"), f"kafka://{kafka_address}/away-{uuid.uuid4().hex[:8]}"
    data = write_data(programs.folder, 400)
    with local_registry(start=False) as registry:
        programs.environment[URL] = registry.url
        running = [programs.start("run", service, path, "--bus", url) for service in ("master", "svb-worker")]
        for service in running:
            wait_for(lambda service=service: "does not answer" in service.err, "a service that waits")
        time.sleep(2)
        assert all(service.alive for service in running)
        registry.start()
        programs.run("produce", path, data, "--bus", url)
        follow = programs.start("snapshot", path, "--follow", "--json", "--bus", url)

        def events() -> int:
            return int(follow.documents[-1]["n_events"]) if follow.documents else 0

        wait_for(lambda: events() == 400, "the first events")
        registry.kill()
        programs.run("produce", path, data, "--bus", url)
        wait_for(lambda: events() == 800, "events after the registry's end")
        assert all(service.alive for service in [*running, follow])
        assert programs.run("dead-letters", path, "--json", "--bus", url).documents == []


def test_up_waits_at_the_start_and_its_killed_workers_wait_later(programs: Programs) -> None:
    path, url = write_spec(programs.folder, "killed"), f"embedded:{programs.folder / 'bus'}"
    data = write_data(programs.folder, 400)
    with local_registry(start=False) as registry:
        programs.environment[URL] = registry.url
        up = programs.start("up", path, "--data", data, "--bus", url)
        wait_for(lambda: "does not answer" in up.err, "up, waiting")
        registry.start()
        follow = programs.start("snapshot", path, "--follow", "--json", "--bus", url)
        wait_for(lambda: bool(follow.documents) and follow.documents[-1]["n_events"] == 400, "the first events")
        registry.kill()
        workers = services(up.pid, "svb-worker")
        assert workers
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        programs.run("produce", path, data, "--bus", url)
        time.sleep(5)
        assert up.alive
        assert follow.documents[-1]["n_events"] == 400, "a worker cannot know its ids without the registry"
        assert up.end() == 0
