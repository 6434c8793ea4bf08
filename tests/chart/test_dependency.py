"""The chart as a part of another one, which may switch it off, and which has sidecars of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import CHART, Refused, render
from tests.chart.objects import environment, of_kind, pods

POD = """
apiVersion: v1
kind: Pod
metadata: {name: own, labels: {app: own}}
spec:
  initContainers:
    -
      {{- $with := dict "root" .Subcharts.streaminfer "spec" "prices" "maxAge" 60 }}
      {{- include "streaminfer.subscriber.sidecar" $with | nindent 6 }}
  containers:
    - {name: own, image: own, volumeMounts: [{name: posterior, mountPath: /posterior}]}
  volumes:
    {{- include "streaminfer.subscriber.volumes" $with | nindent 4 }}
"""


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("charts") / "shop"
    (home / "templates").mkdir(parents=True)
    dependency = {"name": "streaminfer", "version": "*", "condition": "streaminfer.enabled"}
    chart = {"apiVersion": "v2", "name": "shop", "version": "1.0.0", "dependencies": [dependency]}
    (home / "Chart.yaml").write_text(yaml.safe_dump(chart))
    (home / "templates" / "own.yaml").write_text("{{- if .Subcharts.streaminfer }}" + POD + "{{- end }}")
    shutil.copytree(CHART, home / "charts" / "streaminfer")
    return home


def test_values_of_the_parent_reach_it_and_global_ones_are_taken(parent: Path) -> None:
    values = {"global": {"region": "eu"}, "streaminfer": {"enabled": True, "kafka": {"bootstrapServers": "other:9092"}}}
    objects = render(values=values, chart=parent)
    assert "r-streaminfer-prices-master" in of_kind(objects, "Deployment")
    for pod in pods(objects):
        for container in pod.ours:
            assert environment(container)["STREAMINFER_BUS"] == "kafka://other:9092"


def test_a_pod_of_the_parent_has_the_sidecar_with_all_that_it_needs(parent: Path) -> None:
    objects = render(chart=parent)
    (pod,) = [each for each in pods(objects) if each.workload["metadata"]["name"] == "own"]
    (sidecar,) = pod.spec["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["args"][:6] == [
        "subscribe",
        "/etc/streaminfer/prices/spec.yaml",
        "--to",
        "/posterior",
        "--max-age",
        "60",
    ]
    volumes = {each["name"]: each for each in pod.spec["volumes"]}
    assert {each["name"] for each in sidecar["volumeMounts"]} <= set(volumes)
    assert volumes["spec-prices"]["configMap"]["name"] in of_kind(objects, "ConfigMap")
    assert volumes["http-token"]["secret"]["secretName"] in of_kind(objects, "Secret")


def test_it_can_be_switched_off(parent: Path) -> None:
    assert not render(values={"streaminfer": {"enabled": False}}, chart=parent)


def test_its_values_are_checked_there_too(parent: Path) -> None:
    with pytest.raises(Refused, match="additional properties 'nonsense' not allowed"):
        render(values={"streaminfer": {"nonsense": 1}}, chart=parent)
