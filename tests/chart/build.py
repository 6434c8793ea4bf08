"""The program helm, built once and kept outside the project. `make test` runs this file while other tests go on."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

VERSION: Final = "3.22.0"
WAYS: Final = f"""no helm for the tests of the chart. There are three ways to one:
1. STREAMINFER_TEST_HELM=/path/to/helm;
2. helm 3 on the PATH;
3. Go 1.21 or newer on the PATH, which builds helm {VERSION} once (Debian, Ubuntu: apt-get install golang-go)."""


class NoHelm(Exception):
    """None of the ways to helm is open."""


def helm() -> str:
    """The program. Several processes may ask at the same time; the first one builds it. Raises NoHelm."""
    named = os.environ.get("STREAMINFER_TEST_HELM") or shutil.which("helm")
    if named:
        return named
    folder = Path.home() / ".cache" / "streaminfer" / f"helm-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "helm").exists():
            _build(folder)
    return str(folder / "helm")


def _build(folder: Path) -> None:
    if shutil.which("go") is None:
        raise NoHelm(f"{WAYS}\nHere `go` is missing for the third.")
    with tempfile.TemporaryDirectory(dir=folder) as made:
        done = subprocess.run(
            ["go", "install", f"helm.sh/helm/v3/cmd/helm@v{VERSION}"],
            env={**os.environ, "GOBIN": made, "GOFLAGS": "-buildvcs=false"},
            text=True,
            capture_output=True,
            timeout=1800,
            check=False,
        )
        if done.returncode != 0:
            raise NoHelm(f"{WAYS}\nHere Go failed for the third:\n{done.stderr[-2000:]}")
        (Path(made) / "helm").rename(folder / "helm")  # whole, or not at all


if __name__ == "__main__":
    helm()
