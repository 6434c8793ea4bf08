"""A real Kafka broker for tests: one that is given, one in a container, or one started here from Maven's jars.

Without any of them the tests fail: delivery is not proved on a bus that was not tried.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

VERSION = "4.1.0"
START_S = 60.0

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>streaminfer</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
  </dependency></dependencies>
</project>
"""

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.cleaner.backoff.ms=200
auto.create.topics.enable=false
"""


def cache() -> Path:
    """Where the jars are kept: STREAMINFER_KAFKA_JARS, else the user's cache."""
    return Path(os.environ.get("STREAMINFER_KAFKA_JARS", Path.home() / ".cache" / "streaminfer" / f"kafka-{VERSION}"))


def jars() -> Path:
    """The broker's jars, fetched once; several test processes may ask at the same time."""
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            (folder / "pom.xml").write_text(POM)
            command = ["mvn", "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'libs'}"]
            subprocess.run(command, cwd=folder, check=True, timeout=280)
            (folder / "complete").touch()
    return folder / "libs"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class LocalBroker:
    """A broker of one node in a directory of its own, which can be stopped, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._jars = folder, jars()
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        text = PROPERTIES.format(folder=folder, port=self.port, controller=free_port())
        (folder / "server.properties").write_text(text)
        identity = str(uuid.uuid4())
        self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", "server.properties").wait(60)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._process = self._java("kafka.Kafka", "server.properties")
        deadline = time.monotonic() + START_S
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert self._process.poll() is None, f"the broker ended: see {self._folder / 'broker.log'}"
            assert time.monotonic() < deadline, f"the broker does not answer: see {self._folder / 'broker.log'}"
            time.sleep(0.1)

    def kill(self) -> None:
        """Ends the broker without any goodbye; its directory stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / "broker.log").open("ab") as log:
            command = ["java", "-Xmx512m", "-cp", f"{self._jars}/*", *arguments]
            return subprocess.Popen(command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@contextmanager
def local_broker() -> Iterator[LocalBroker]:
    """A broker of one's own."""
    folder = Path(tempfile.mkdtemp(prefix="streaminfer-kafka-"))
    broker = LocalBroker(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def any_broker() -> Iterator[str]:
    """The address of a broker that may be shared: given, in a container, or local."""
    given = os.environ.get("STREAMINFER_TEST_KAFKA")
    if given:
        yield given
    elif _docker_answers():
        from testcontainers.kafka import KafkaContainer

        with KafkaContainer("confluentinc/cp-kafka:8.1.0").with_kraft() as container:
            yield container.get_bootstrap_server()
    else:
        with local_broker() as broker:
            yield broker.address


def _docker_answers() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True, timeout=20, check=False).returncode == 0
