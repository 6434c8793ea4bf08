"""The real image, in containers as the chart's pods describe them, on a real broker: a stream with hard kills."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np
import pytest

from streaminfer import connect, fit, load_spec
from streaminfer.spec import Spec
from tests.brokers.node import free_port
from tests.chart import image
from tests.chart.helm import Object, render
from tests.chart.image import podman
from tests.chart.objects import Pod, of_kind, pods

pytestmark = pytest.mark.long
MEGABYTE = 1_000_000
ROWS = 4000


@pytest.fixture(scope="module")
def sizes() -> tuple[int, int]:
    return image.build()


class Pods:
    """The pods of a rendered chart as containers of this machine's network."""

    def __init__(self, objects: list[Object], home: Path) -> None:
        self._objects, self._home = objects, home
        self._running: dict[str, int] = {}
        (home / "http").mkdir(parents=True)
        (home / "http" / "token").write_text("t")
        (home / "spec").mkdir()
        (data,) = [each["data"] for each in of_kind(objects, "ConfigMap").values()]
        (home / "spec" / "spec.yaml").write_text(data["spec.yaml"])
        (home / "posterior").mkdir()
        (home / "posterior").chmod(0o777)

    def template(self, ending: str) -> Pod:
        (found,) = [pod for pod in pods(self._objects) if ending in pod.name]
        return found

    def start(self, ending: str, *options: str) -> str:
        """A container of a workload, in the background; its name."""
        pod, name, port = self.template(ending), f"{ending}-{uuid.uuid4().hex[:8]}", free_port()
        (container,) = pod.ours
        places = {"/etc/streaminfer/prices": "spec", "/etc/streaminfer-http": "http", "/posterior": "posterior"}
        files = {place: self._home / folder for place, folder in places.items()}
        self._running[name] = port
        image.start(name, container, files, port, *(options or ("--detach",)))
        return name

    def ask(self, name: str, path: str, token: str | None = None) -> int:
        """The status of an answer; 0 if there is none."""
        asked = HTTPConnection("127.0.0.1", self._running[name], timeout=10)
        try:
            asked.request("GET", path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
            return asked.getresponse().status
        except (OSError, HTTPException):
            return 0
        finally:
            asked.close()

    def await_ready(self, name: str) -> None:
        until = time.monotonic() + 180
        while self.ask(name, "/readyz") != 200:
            assert time.monotonic() < until, f"{name} is not ready:\n{podman('logs', name, check=False)}"
            time.sleep(0.5)

    def kill(self, name: str) -> None:
        podman("kill", "--signal=KILL", name)

    def end(self) -> None:
        for name in self._running:
            podman("rm", "--force", "--time=0", name, check=False)


@pytest.fixture
def running(sizes: tuple[int, int], kafka_address: str, tmp_path: Path) -> Iterator[tuple[Pods, str]]:
    namespace = f"c{uuid.uuid4().hex[:8]}"
    subscriber = {"name": "own", "spec": "prices", "image": "none"}
    kafka = {"bootstrapServers": kafka_address, "namespace": namespace}
    found = Pods(render(values={"kafka": kafka, "subscribers": [subscriber]}), tmp_path)
    try:
        yield found, f"kafka://{kafka_address}/{namespace}"
    finally:
        found.end()


def test_the_image_is_small_and_holds_nothing_that_installs(sizes: tuple[int, int]) -> None:
    whole, base = sizes
    print(f"{(whole - base) / MEGABYTE:.0f} MB beyond a base of {base / MEGABYTE:.0f} MB")
    assert whole - base <= 350 * MEGABYTE
    code = (
        "import os, importlib.util as u; print(os.getuid(), *filter(u.find_spec, ('pip', 'setuptools', 'ensurepip')))"
    )
    run = ["run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", "--entrypoint=python3", image.IMAGE]
    assert podman(*run, "-c", code).split() == ["65532"]


def test_a_stream_with_hard_kills_gives_the_posterior_of_fit(running: tuple[Pods, str], tmp_path: Path) -> None:
    all_pods, address = running
    random.seed(7)
    rows = [{"sqm": random.uniform(30, 150), "rooms": random.randint(1, 6)} for _ in range(ROWS)]
    rows = [{**row, "price": 20 + 2 * row["sqm"] + 8 * row["rooms"] + random.gauss(0, 10)} for row in rows]
    lines = ["sqm,rooms,price", *(f"{row['sqm']!r},{row['rooms']},{row['price']!r}" for row in rows)]
    (tmp_path / "spec" / "rows.csv").write_text("\n".join(lines) + "\n")

    all_pods.start("prices-topics", "--attach=stderr")  # ends with 0 once the topics are there
    masters = [all_pods.start("prices-master") for _ in range(2)]
    workers = [all_pods.start("prices-worker") for _ in range(2)]
    reader = all_pods.start("subscriber-own")
    for name in (*masters, *workers):
        all_pods.await_ready(name)
        assert (all_pods.ask(name, "/metrics"), all_pods.ask(name, "/metrics", "t")) == (401, 200)
    spec = load_spec(tmp_path / "spec" / "spec.yaml")
    with connect(address) as bus:
        sent = ["produce", "/etc/streaminfer/prices/spec.yaml", "/etc/streaminfer/prices/rows.csv", "--rate=400"]
        producer = f"produce-{uuid.uuid4().hex[:8]}"
        mounts = [f"--volume={tmp_path / 'spec'}:/etc/streaminfer/prices", f"--env=STREAMINFER_BUS={address}"]
        podman("run", "--detach", f"--name={producer}", "--network=host", "--read-only", *mounts, image.IMAGE, *sent)
        try:
            _await(lambda: (found := bus.snapshot(spec)) is not None and found.n_events >= ROWS // 8)
            for name in (masters[0], workers[0]):
                all_pods.kill(name)
            again = [all_pods.start("prices-master"), all_pods.start("prices-worker")]
            _await(lambda: (found := bus.snapshot(spec)) is not None and found.n_events >= ROWS)
        finally:
            podman("rm", "--force", "--time=0", producer, check=False)
        found = bus.snapshot(spec)
    assert found is not None
    exact = fit(spec, rows)
    counted = found.to_json()
    assert [counted[name] for name in ("n_events", "n_lost", "n_dead_lettered")] == [ROWS, 0, 0]
    for name, mean in exact.mean.items():
        np.testing.assert_allclose(found.mean[name], mean, rtol=1e-9)
        np.testing.assert_allclose(found.sd[name], exact.sd[name], rtol=1e-9)
    all_pods.await_ready(reader)
    _await(lambda: _events_in_file(tmp_path, spec) == ROWS)
    for name in (*again, masters[1], workers[1], reader):
        began = time.monotonic()
        podman("stop", "--time=30", name)
        assert time.monotonic() - began < 25, "it ends on SIGTERM, also as process 1"


def _events_in_file(home: Path, spec: Spec) -> int:
    with connect(f"file:{home / 'posterior' / 'prices.snapshot'}") as file:
        found = file.snapshot(spec)
    return 0 if found is None else int(found.n_events)


def _await(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 240
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.5)
