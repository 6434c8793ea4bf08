"""The source of a broker that tests may share: given, in a container, or local."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.brokers.classes import keep_classes
from tests.brokers.local import SETTINGS, copies, local_broker

IMAGE = "confluentinc/cp-kafka:8.1.0"


@contextmanager
def any_broker() -> Iterator[str]:
    """The address of a broker, from the first way that is open; raises NoBroker if none is."""
    given = os.environ.get("STREAMINFER_TEST_KAFKA")
    if given:
        yield given
    elif docker_answers():
        with container() as address:
            yield address
    else:
        keep_classes()
        with local_broker() as broker:
            yield broker.address


@contextmanager
def container() -> Iterator[str]:
    """A broker in a container, with the settings that local ones have."""
    from testcontainers.community.kafka import KafkaContainer

    made = KafkaContainer(IMAGE).with_kraft()
    for name, value in {**SETTINGS, **copies(1)}.items():
        made = made.with_env(f"KAFKA_{name.upper().replace('.', '_')}", str(value))
    with made as started:
        yield started.get_bootstrap_server()


def docker_answers() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True, timeout=20, check=False).returncode == 0
