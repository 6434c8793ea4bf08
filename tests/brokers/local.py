"""A local Kafka of one node or of several, each broker and controller at once."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.brokers.node import Node, free_port

SETTINGS = {
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "log.cleaner.backoff.ms": 200,
    "broker.session.timeout.ms": 3000,  # a killed broker may come back only after it
    "broker.heartbeat.interval.ms": 500,
    "auto.create.topics.enable": "false",
}
"""What tests rely on with every broker: short waits, few internal partitions, no topics by accident."""


def copies(nodes: int) -> dict[str, object]:
    """Every partition on every node, and one of them may be away."""
    names = ("default", "offsets.topic", "transaction.state.log")
    least = max(1, nodes - 1)
    factors = {f"{name}.replication.factor": nodes for name in names}
    return {**factors, "min.insync.replicas": least, "transaction.state.log.min.isr": least}


@dataclass(frozen=True)
class Listener:
    """One more way into the broker, beside the one without security. Clients are sent to `advertised`."""

    port: int
    protocol: str = "PLAINTEXT"
    advertised: int | None = None
    """Another port than its own if something stands in between."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of this listener alone, without its prefix."""


class Cluster:
    """Nodes that know each other. All of them keep their ports and directories for life."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 1,
        port: int | None = None,
        listeners: Mapping[str, Listener] | None = None,
        settings: Mapping[str, object] | None = None,
        format_options: Sequence[str] = (),
    ) -> None:
        ports = [port or free_port(), *(free_port() for _ in range(nodes - 1))]
        controllers = [free_port() for _ in range(nodes)]
        voters = ",".join(f"{i + 1}@127.0.0.1:{controller}" for i, controller in enumerate(controllers))
        common: dict[str, object] = {"controller.quorum.voters": voters, **SETTINGS, **copies(nodes)}
        self.nodes = [
            Node(
                folder / f"node-{i + 1}",
                i + 1,
                ports[i],
                {
                    "node.id": i + 1,
                    "log.dirs": folder / f"node-{i + 1}" / "data",
                    **common,
                    **_listening(ports[i], controllers[i], listeners or {}),
                    **(settings or {}),
                },
            )
            for i in range(nodes)
        ]
        identity = str(uuid.uuid4())
        for node in self.nodes:
            node.format(identity, *format_options)
        for node in self.nodes:
            node.formatted()

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.await_ready()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()


class LocalBroker(Cluster):
    """A cluster of one node."""

    @property
    def port(self) -> int:
        return self.nodes[0].port

    @property
    def pid(self) -> int:
        return self.nodes[0].pid

    def stop(self) -> None:
        self.nodes[0].stop()


def _listening(port: int, controller: int, listeners: Mapping[str, Listener]) -> dict[str, object]:
    """Every node is a broker and a controller, with a listener without security for the nodes themselves."""
    every = {"INTERNAL": Listener(port), **listeners}
    found: dict[str, object] = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL",
        "listeners": ",".join(
            [f"CONTROLLER://127.0.0.1:{controller}", *(f"{name}://127.0.0.1:{x.port}" for name, x in every.items())]
        ),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{x.advertised or x.port}" for name, x in every.items()),
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{name}:{x.protocol}" for name, x in every.items())]
        ),
    }
    for name, listener in listeners.items():
        prefix = f"listener.name.{name.lower()}."
        found.update({f"{prefix}{key}": value for key, value in listener.settings.items()})
    return found


@contextmanager
def local_broker(**options: object) -> Iterator[LocalBroker]:
    """A broker of one's own, of one node; takes what Cluster takes."""
    with _in_temporary_folder() as folder:
        broker = LocalBroker(folder, **options)  # type: ignore[arg-type]
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()


@contextmanager
def three_brokers(**options: object) -> Iterator[Cluster]:
    """Three nodes; every partition on all of them, and writes need two."""
    with _in_temporary_folder() as folder:
        cluster = Cluster(folder, 3, **options)  # type: ignore[arg-type]
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill()


@contextmanager
def _in_temporary_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="streaminfer-kafka-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
