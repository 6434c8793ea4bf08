"""The real image, built by podman on a base that is made here, and containers of it as a chart's pods describe them.

As root on Debian, with the packages podman, runc and mmdebstrap. No image registry is asked. What was built before is
used again: podman knows which layers have changed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.chart.deriving import ROOT
from tests.chart.helm import Object

CACHE: Final = Path.home() / ".cache" / "streaminfer" / "image"
BASE: Final = "localhost/streaminfer-base:1"
IMAGE: Final = "localhost/streaminfer:test"
PACKAGES: Final = "ca-certificates,python3,python3-venv"
AUTHORITIES: Final = "/etc/ssl/certs"
SETTINGS: Final = """[containers]
default_ulimits = ["nofile=10000:10000", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
"""Limits can only be lowered where root has few capabilities."""


def podman(*arguments: str, patience: float = 120, check: bool = True) -> str:
    """What it prints; fails with its message."""
    environment = {**os.environ, "CONTAINERS_CONF": str(CACHE / "containers.conf")}
    done = subprocess.run(
        ["podman", *arguments], env=environment, text=True, capture_output=True, timeout=patience, check=False
    )
    assert not check or done.returncode == 0, f"podman {arguments[0]}: {(done.stdout + done.stderr)[-2000:]}"
    return done.stdout


def build() -> tuple[int, int]:
    """Bytes of the image and of its base."""
    missing = [name for name in ("podman", "runc", "mmdebstrap") if shutil.which(name) is None]
    assert not missing, f"{', '.join(missing)}: must be installed to build the image (Debian: packages of these names)"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (CACHE / "containers.conf").write_text(SETTINGS)
        if BASE not in podman("images", "--format", "{{.Repository}}:{{.Tag}}").split():
            _make_base()
        trusted = [
            "--volume",
            f"{AUTHORITIES}:{AUTHORITIES}:ro",
            "--env",
            f"PIP_CERT={AUTHORITIES}/ca-certificates.crt",
        ]
        arguments = ["build", "--network", "host", *trusted, "--build-arg", f"BASE={BASE}", "--tag", IMAGE, str(ROOT)]
        podman(*arguments, patience=1800)
    image, base = (int(podman("image", "inspect", "--format", "{{.Size}}", name)) for name in (IMAGE, BASE))
    return image, base


def _make_base() -> None:
    """A minimal Debian with Python, under the name that the Dockerfile's argument takes."""
    root = CACHE / "base.tar"
    made = ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)]
    done = subprocess.run(made, text=True, capture_output=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    podman("import", str(root), BASE, patience=600)
    root.unlink()


def start(name: str, container: Object, files: dict[str, Path], port: int, *options: str) -> None:
    """A container of the image, as a pod's container says; `files` are mounted by their places."""
    arguments = [
        each.replace("$(POD_NAME)", name).replace("0.0.0.0:8080", f"127.0.0.1:{port}") for each in container["args"]
    ]
    arguments = [each.replace("0.0.0.0:18080", f"127.0.0.1:{port}") for each in arguments]
    variables = [f"--env={each['name']}={each.get('value', '1')}" for each in container["env"]]
    mounts = [f"--volume={path}:{place}" for place, path in files.items()]
    limits = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp", "--user=65532:65532"]
    podman(
        "run",
        f"--name={name}",
        "--network=host",
        *limits,
        *variables,
        *mounts,
        *options,
        IMAGE,
        *arguments,
        patience=300,
    )
