"""Values that YAML or Kubernetes would take for something else arrive as the texts that they are."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.chart.helm import render
from tests.chart.objects import of_kind, pods

POISSON = {"name": "p", "model": {"kind": "poisson", "field": "k"}}
STRIMZI = {"topics": {"create": "strimzi"}, "strimzi": {"cluster": "123"}}
ODD: dict[str, dict[str, Any]] = {
    "class of an ingress": {
        "monitor": {"ingress": {"enabled": True, "className": "a\n  b: c # d", "hosts": [{"host": "h"}]}}
    },
    "key of the token": {"http": {"tokenKey": "123"}},
    "topology": {"topologySpread": {"topologyKeys": ["true", "a: b"]}},
    "names": {"nameOverride": "true", "fullnameOverride": "null"},
    "account": {"serviceAccount": {"name": "123"}},
    "topic that is a number": {
        "specs": [{"spec": {**POISSON, "data": {"topic": "2024"}}}],
        "keda": {"enabled": True, "maxReplicas": 3},
    },
    "strimzi": {"specs": [{"spec": {**POISSON, "data": {"topic": "2024"}}}], **STRIMZI},
    "file": {"specs": [{"spec": POISSON, "files": {"123": "yes"}}]},
}


@pytest.mark.parametrize("name", ODD)
def test_texts_stay_texts(name: str) -> None:
    """Every value that is a text in the API is one: names, labels, annotations, keys."""
    for each in render(values=ODD[name]):
        _check(each, each["kind"])
    found = render(values=ODD[name])
    if name == "class of an ingress":
        (ingress,) = of_kind(found, "Ingress").values()
        assert ingress["spec"]["ingressClassName"] == ODD[name]["monitor"]["ingress"]["className"]


TEXTS = re.compile(r"name|topic|topicName|topologyKey|ingressClassName|consumerGroup|serviceAccountName|secretName")


def _check(value: Any, path: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            assert isinstance(key, str), f"{path}: the key {key!r}"
            if TEXTS.fullmatch(str(key)) or path.endswith((".labels", ".matchLabels", ".annotations")):
                assert not isinstance(inner, bool | int | float | None), f"{path}.{key}: {inner!r}"
            _check(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            _check(each, path)


@pytest.mark.parametrize("key", ["$(POD_NAME)", "$$(POD_NAME)", "a$$b", "$", "--all", "a b", "'\"; $HOME"])
def test_a_key_reaches_the_program_as_it_is(key: str) -> None:
    """Kubernetes replaces $(NAME) in arguments, and makes $$ one $."""
    subscriber = {"name": "a", "spec": "p", "image": "i", "key": key}
    spec = {**POISSON, "key": {"field": "x"}}
    objects = render(values={"specs": [{"spec": spec}], "subscribers": [subscriber]})
    (sidecar,) = [pod.ours[0] for pod in pods(objects) if pod.name.endswith("subscriber-a")]
    (given,) = [each for each in sidecar["args"] if each.startswith("--key=")]
    assert re.search(r"(?<!\$)(?:\$\$)*\$\(", given) is None
    assert given.replace("$$", "$") == f"--key={key}"
