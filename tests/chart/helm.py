"""The program helm, built once and kept outside the project, and what it makes of the chart."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

VERSION: Final = "3.22.0"
CHART: Final = Path(__file__).resolve().parents[2] / "helm" / "streaminfer"
KUBERNETES: Final = "1.33"
"""Without this, a helm that was built by `go install` takes the cluster for 1.20."""
WAYS: Final = f"""no helm for the tests of the chart. There are three ways to one:
1. STREAMINFER_TEST_HELM=/path/to/helm;
2. helm 3 on the PATH;
3. Go 1.21 or newer on the PATH, which builds helm {VERSION} once (Debian, Ubuntu: apt-get install golang-go)."""

Object = dict[str, Any]


class NoHelm(Exception):
    """None of the ways to helm is open."""


class Refused(Exception):
    """What helm says of values that it refuses."""


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


def run(*arguments: str) -> str:
    """What helm prints; raises Refused."""
    done = subprocess.run([helm(), *arguments], text=True, capture_output=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Refused(done.stdout + done.stderr)
    return done.stdout


def render(
    *files: Path, values: Object | None = None, release: str = "r", chart: Path = CHART, upgrade: bool = False
) -> list[Object]:
    """The objects of the chart with the values of files, and then with further ones; raises Refused."""
    arguments = ["template", release, str(chart), "--kube-version", KUBERNETES, "--namespace", "inference"]
    arguments += [part for file in files for part in ("-f", str(file))] + (["--is-upgrade"] if upgrade else [])
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as more:
        yaml.safe_dump(values or {}, more)
        more.flush()
        text = run(*arguments, "-f", more.name)
    return [each for each in yaml.load_all(text, Loader=Strict) if each]


class Strict(yaml.SafeLoader):
    """Refuses repeated keys, as an API server does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        assert len(names) == len(set(names)), f"a key appears twice among {names}: {node.start_mark}"
        return super().construct_mapping(node, deep)


if __name__ == "__main__":
    helm()
