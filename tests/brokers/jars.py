"""The jars of a Kafka broker, from Maven, kept outside the project."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

VERSION = "4.1.0"

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>streaminfer</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
  </dependency></dependencies>
</project>
"""

THREE_WAYS = """no Kafka broker for the tests. There are three ways to one:
1. STREAMINFER_TEST_KAFKA=host:port of a broker that runs already;
2. a Docker engine that answers `docker info`;
3. Java 17 or newer and Maven on the PATH (Debian, Ubuntu: apt-get install default-jre-headless maven);
   tests that kill their broker need this one."""


class NoBroker(Exception):
    """None of the ways to a broker is open."""


def cache() -> Path:
    """The folder of the jars: STREAMINFER_KAFKA_JARS, else the user's cache."""
    return Path(os.environ.get("STREAMINFER_KAFKA_JARS", Path.home() / ".cache" / "streaminfer" / f"kafka-{VERSION}"))


def jars() -> Path:
    """The broker's jars, fetched once; several processes may ask at the same time. Raises NoBroker."""
    folder = cache()
    if shutil.which("java") is None:
        raise NoBroker(f"{THREE_WAYS}\nHere `java` is missing for the third.")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _download(folder)
            (folder / "complete").touch()
    return folder / "libs"


def _download(folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise NoBroker(f"{THREE_WAYS}\nHere `mvn` is missing for the third.")
    (folder / "pom.xml").write_text(POM)
    command = ["mvn", "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'libs'}"]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=280, check=False)
    if done.returncode != 0:
        raise NoBroker(f"{THREE_WAYS}\nHere Maven failed for the third:\n{(done.stdout + done.stderr)[-2000:]}")
