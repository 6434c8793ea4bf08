"""The classes of a broker as Java has loaded them, kept beside the jars: a node then starts with half of the work.

Java takes no notice of an archive that is missing or of another version. A part of one would crash it: archives get
their name when they are complete.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.brokers.local import LocalBroker
from tests.brokers.node import classes

STOP_S = 120.0
"""A broker that is stopped writes the archive first."""


def keep_classes() -> None:
    """Makes the archive once, from a broker that starts and stops; without it all works as well."""
    kept = classes()
    if kept.exists():
        return
    folder = Path(tempfile.mkdtemp(prefix="streaminfer-kafka-"))
    new = kept.with_name(f"{kept.name}.{os.getpid()}")
    broker = LocalBroker(folder)
    try:
        with suppress(AssertionError, FileNotFoundError):
            (node,) = broker.nodes
            node.launch(f"-XX:ArchiveClassesAtExit={new}")
            node.await_ready()
            node.stop(STOP_S)
            new.rename(kept)
    finally:
        broker.kill()
        new.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
