"""What helm makes of the chart."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from tests.chart.build import helm

CHART: Final = Path(__file__).resolve().parents[2] / "helm" / "streaminfer"
KUBERNETES: Final = "1.33"
"""Without this, a helm that was built by `go install` takes the cluster for 1.20."""
Object = dict[str, Any]


class Refused(Exception):
    """What helm says of values that it refuses."""


def run(*arguments: str) -> str:
    """What helm prints; raises Refused."""
    done = subprocess.run([helm(), *arguments], text=True, capture_output=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Refused(done.stdout + done.stderr)
    return done.stdout


def render(
    *files: Path, values: Object | None = None, release: str = "r", chart: Path = CHART, kubernetes: str = KUBERNETES
) -> list[Object]:
    """The objects of the chart with the values of files, and then with further ones; raises Refused."""
    arguments = ["template", release, str(chart), "--kube-version", kubernetes, "--namespace", "inference"]
    arguments += [part for file in files for part in ("-f", str(file))]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as more:
        json.dump(values or {}, more)  # with quotes: to helm a bare n is false
        more.flush()
        text = run(*arguments, "-f", more.name)
    return [each for each in yaml.load_all(text, Loader=Strict) if each]


class Strict(yaml.SafeLoader):
    """Refuses repeated keys, as an API server does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        assert len(names) == len(set(names)), f"a key appears twice among {names}: {node.start_mark}"
        return super().construct_mapping(node, deep)
