"""A real schema registry for tests (Apicurio, from Maven), and kcat, a Kafka client of other authors."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.brokers.node import free_port

VERSION = "2.6.13.Final"
PATH = "/apis/ccompat/v7"
START_S = 120.0
USED_IDS = 5
"""Ids of other people's schemas: an id that by chance is the declared one would prove nothing."""


def runner() -> Path:
    """The registry's program, fetched once; several test processes may ask at the same time."""
    folder = Path.home() / ".cache" / "streaminfer" / f"apicurio-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
            command = ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
            subprocess.run(command, cwd=folder, check=True, timeout=280)
            (archive,) = folder.glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            archive.unlink()
            (folder / "complete").touch()
    return next(folder.glob("*-runner.jar"))


class Registry:
    """A registry that keeps everything in memory; it can be killed and started again at the same address, empty."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._runner, self._port = folder, runner(), free_port()
        self.url = f"http://127.0.0.1:{self._port}{PATH}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ["-Xmx384m", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self._port}"]
        with (self._folder / "registry.log").open("ab") as log:
            command = ["java", *options, "-jar", str(self._runner)]
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_S
        while True:
            with suppress(OSError):
                self.ask("GET", "/subjects")
                break
            assert self._process.poll() is None, f"the registry ended: see {self._folder / 'registry.log'}"
            assert time.monotonic() < deadline, f"the registry does not answer: see {self._folder / 'registry.log'}"
            time.sleep(0.2)
        for i in range(USED_IDS):
            self.register("others-value", {"type": "fixed", "name": f"Other{i}", "size": 1})

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        """One request as any client makes it."""
        data = None if document is None else json.dumps(document).encode()
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=20)) as connection:
            connection.request(method, PATH + path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise OSError(f"{method} {path}: {answer.status} {answer.read()[:300]!r}")
            return json.load(answer)

    def ids(self, subject: str) -> list[int]:
        """The ids of all versions of a subject, oldest first."""
        versions = self.ask("GET", f"/subjects/{subject}/versions")
        return [self.ask("GET", f"/subjects/{subject}/versions/{version}")["id"] for version in versions]

    def register(self, subject: str, schema: Any) -> int:
        return int(self.ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)})["id"])


@contextmanager
def local_registry(start: bool = True) -> Iterator[Registry]:
    """A registry of one's own."""
    folder = Path(tempfile.mkdtemp(prefix="streaminfer-registry-"))
    registry = Registry(folder)
    try:
        if start:
            registry.start()
        yield registry
    finally:
        registry.kill()
        shutil.rmtree(folder, ignore_errors=True)


def kcat() -> str:
    """The command, which `make test` installs if it may."""
    assert shutil.which("kcat") is not None, "kcat is missing: install it with `apt-get install kcat`"
    return "kcat"
