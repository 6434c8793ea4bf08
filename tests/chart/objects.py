"""Questions that tests ask of rendered objects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.chart.helm import CHART, Object, render

SCENARIOS: Final[dict[str, tuple[Path, ...]]] = {
    "nothing": (),
    **{path.stem.removesuffix("-values"): (path,) for path in sorted((CHART / "ci").glob("*-values.yaml"))},
}
"""The bare defaults, and the values in ci."""
WORKLOADS: Final = ("Deployment", "Job", "Pod")
PROGRAM: Final = ["streaminfer"]


@cache
def scenario(name: str) -> tuple[Object, ...]:
    return tuple(render(*SCENARIOS[name]))


class Pod(NamedTuple):
    """A pod's template with the workload that it belongs to."""

    workload: Object
    metadata: Object
    spec: Object

    @property
    def name(self) -> str:
        return f"{self.workload['kind']} {self.workload['metadata']['name']}"

    @property
    def containers(self) -> list[Object]:
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]

    @property
    def ours(self) -> list[Object]:
        """Containers that run our program."""
        return [each for each in self.containers if each.get("command") == PROGRAM]


def pods(objects: tuple[Object, ...] | list[Object]) -> list[Pod]:
    found = []
    for each in objects:
        if each["kind"] == "Pod":
            found.append(Pod(each, each["metadata"], each["spec"]))
        elif each["kind"] in WORKLOADS:
            template = each["spec"]["template"]
            found.append(Pod(each, template["metadata"], template["spec"]))
    return found


def of_kind(objects: tuple[Object, ...] | list[Object], kind: str) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def selected(selector: Object, labels: Object) -> bool:
    """Whether labels satisfy matchLabels and the one kind of matchExpressions that the chart has."""
    rules = selector.get("matchExpressions", ())
    assert all(rule["operator"] == "NotIn" for rule in rules)
    return all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items()) and all(
        labels.get(rule["key"]) not in rule["values"] for rule in rules
    )


def environment(container: Object) -> dict[str, str]:
    """Variables that are written down."""
    return {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}


def strings(value: Any) -> Iterator[str]:
    """All strings in a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
