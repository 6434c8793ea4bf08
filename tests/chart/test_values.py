# ruff: noqa: E501 (one mistake, one line)
"""Wrong values: each is refused before anything is installed, with the field, the rule and mostly the value."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streaminfer.spec import json_schema
from tests.chart.deriving import CHART
from tests.chart.helm import Refused, render

POISSON = {"name": "p", "model": {"kind": "poisson", "field": "k"}}
CHAINS = {
    "name": "p",
    "model": {"kind": "logistic_regression", "features": ["a"], "target": "t"},
    "inference": {"method": "mala"},
}
SASL = {"protocol": "SASL_SSL", "sasl": {"mechanism": "PLAIN", "existingSecret": "s"}}


def _spec(**sections: Any) -> dict[str, Any]:
    return {"specs": [{"spec": {**POISSON, **sections}}]}


def _entry(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"specs": [{"spec": spec, **more}]}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"nonsense": {"key": 1}}, "additional properties 'nonsense' not allowed"),
    "unknown, deeper": ({"kafka": {"sasl": {"user": "u"}}}, "at '/kafka/sasl': additional properties 'user'"),
    "servers with credentials": ({"kafka": {"bootstrapServers": "u:p@kafka:9092"}}, "at '/kafka/bootstrapServers'"),
    "servers without a port": ({"kafka": {"bootstrapServers": "kafka"}}, "at '/kafka/bootstrapServers'"),
    "registry with credentials": ({"schemaRegistry": {"url": "http://u:p@host"}}, "at '/schemaRegistry/url'"),
    "protocol": ({"kafka": {"protocol": "TLS"}}, "at '/kafka/protocol': value must be one of 'PLAINTEXT', 'SSL'"),
    "namespace": ({"kafka": {"namespace": "a/b"}}, "at '/kafka/namespace'"),
    "topics": ({"topics": {"create": "yes"}}, "at '/topics/create': value must be one of 'job', 'services'"),
    "digest": ({"image": {"digest": "sha256:12"}}, "at '/image/digest'"),
    "tag in the repository": ({"image": {"repository": "streaminfer:1"}}, "at '/image/repository'"),
    "port": ({"http": {"port": 70000}}, "at '/http/port': maximum"),
    "loopback, which probes cannot reach": ({"http": {"host": "127.0.0.1"}}, "at '/http/host'"),
    "memory": ({"resources": {"worker": {"limits": {"memory": "lots"}}}}, "at '/resources/worker/limits/memory'"),
    "role": ({"resources": {"svb-worker": {}}}, "at '/resources': additional properties 'svb-worker'"),
    "label": ({"podLabels": {"a": 1}}, "at '/podLabels/a': got number, want string"),
    "own models": ({"ownModels": ["../evil"]}, "at '/ownModels/0'"),
    "spec without a model": (_entry({"name": "p"}), "at '/specs/0/spec': missing property 'model'"),
    "spec, name": (_spec(name="Prices"), "at '/specs/0/spec/name'"),
    "spec, section": (_spec(modell={}), "at '/specs/0/spec': additional properties 'modell'"),
    "spec, option": (_spec(model={"kind": "poisson", "feild": "k"}), "at '/specs/0/spec/model': additional properties 'feild'"),
    "spec, kind": (_spec(model={"kind": "poison"}), "at '/specs/0/spec/model/kind': value must be one of 'bernoulli'"),
    "spec, method": (_spec(inference={"method": "svc"}), "at '/specs/0/spec/inference/method': value must be one of 'svb'"),
    "spec, number": (_spec(inference={"minibatch": "64"}), "at '/specs/0/spec/inference/minibatch': got string, want integer"),
    "file in another folder": (_entry(POISSON, files={"../x": ""}), "at '/specs/0/files': additional properties '../x'"),
    "file in place of the spec": (_entry(POISSON, files={"spec.yaml": ""}), "specs[0].files: must not have spec.yaml"),
    "subscriber without an image": ({"subscribers": [{"name": "a", "spec": "prices"}]}, "missing property 'image'"),
    "more workers than partitions": (
        _entry(POISSON, workers=5),
        "specs[0].workers: must be at most 4, the partitions of p: set fewer workers, or more data.partitions (got 5)",
    ),
    "more samplers than chains": (
        _entry(CHAINS, samplers=5),
        "specs[0].samplers: must be at most 4, the chains of p: set fewer samplers, or more inference.chains (got 5)",
    ),
    "workers of a sampler": (_entry(CHAINS, workers=2), "specs[0].workers: must not be set with the method mala"),
    "samplers of svb": (_entry(POISSON, samplers=2), "specs[0].samplers: must not be set with the method svb"),
    "a name twice": (
        {"specs": [{"spec": POISSON}, {"spec": POISSON}]},
        'specs[1].spec.name: must be different for each spec, as it is the prefix of all topics (got "p" twice)',
    ),
    "subscriber of nothing": (
        {"subscribers": [{"name": "a", "spec": "price", "image": "i"}]},
        'subscribers[0].spec: must be the name of a spec in specs, one of prices (got "price")',
    ),
    "subscriber twice": (
        {"subscribers": [{"name": "a", "spec": "prices", "image": "i"}] * 2},
        'subscribers[1].name: must be different for each subscriber (got "a" twice)',
    ),
    "no mechanism": ({"kafka": {"protocol": "SASL_SSL"}}, "kafka.sasl.mechanism: is required with kafka.protocol: SASL_SSL"),
    "no password": (
        {"kafka": {"protocol": "SASL_SSL", "sasl": {"mechanism": "PLAIN"}}},
        "kafka.sasl.existingSecret: is required with kafka.protocol: SASL_SSL",
    ),
    "no password of one role": (
        {"kafka": {"protocol": "SASL_SSL", "sasl": {"mechanism": "PLAIN"}, "secretsByRole": {"master": "m"}}},
        "is required without kafka.sasl.existingSecret",
    ),
    "password without TLS": (
        {"kafka": {**SASL, "protocol": "SASL_PLAINTEXT"}},
        "kafka.protocol: SASL_PLAINTEXT sends passwords without TLS",
    ),
    "password that is not used": (
        {"kafka": {**SASL, "protocol": "SSL"}},
        'kafka.protocol: must be SASL_SSL or SASL_PLAINTEXT with kafka.sasl.mechanism (got "SSL")',
    ),
    "certificate that is not used": (
        {"kafka": {"client": {"existingSecret": "c"}}},
        'kafka.protocol: must be SSL or SASL_SSL with kafka.ca or kafka.client (got "PLAINTEXT")',
    ),
    "two authorities": (
        {"kafka": {"protocol": "SSL", "ca": {"existingSecret": "a", "existingConfigMap": "b"}}},
        "kafka.ca: existingSecret and existingConfigMap are both set: choose one",
    ),
    "credentials of no registry": (
        {"schemaRegistry": {"existingSecret": "s"}},
        "schemaRegistry.url: is required with schemaRegistry.existingSecret",
    ),
    "two log-ins at the registry": (
        {"schemaRegistry": {"url": "http://r", "existingSecret": "s", "tokenKey": "t", "passwordKey": "p"}},
        "schemaRegistry.tokenKey: must not be set with usernameKey or passwordKey",
    ),
    "Strimzi without a cluster": ({"topics": {"create": "strimzi"}}, "strimzi.cluster: is required with topics.create"),
    "Strimzi and users of ours": (
        {"topics": {"create": "strimzi"}, "strimzi": {"cluster": "c"}, "kafka": {"client": {"existingSecret": "s"}}},
        "secretsByRole must not be set with topics.create: strimzi",
    ),
    "ingress to nowhere": ({"monitor": {"ingress": {"enabled": True}}}, "monitor.ingress.hosts: is required"),
    "KEDA and unknown partitions": (
        {**_spec(data={"topic": "web.clicks"}), "keda": {"enabled": True}},
        'keda.maxReplicas: is required, as p reads the external topic "web.clicks"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused_with_their_field_and_the_rule(name: str) -> None:
    values, message = WRONG[name]
    with pytest.raises(Refused) as caught:
        render(values=values)
    assert message in str(caught.value)
    assert len(str(caught.value).strip().splitlines()) <= 6, "one mistake, one message"


def test_a_cluster_that_is_too_old_is_refused() -> None:
    with pytest.raises(Refused, match=re.escape("requires kubeVersion: >=1.29.0-0")):
        render(kubernetes="1.28")


def test_schemas_of_specs_have_no_pattern_that_helm_cannot_read() -> None:
    """And only those are left out: all others are in the chart."""
    text = (CHART / "values.schema.json").read_text()
    assert not re.search(r"\(\?[=!<]", text)
    patterns = set(re.findall(r"'pattern': '([^']*)'", str(json_schema())))
    assert len(patterns) > 3


def test_a_spec_may_say_null_for_what_it_leaves_out() -> None:
    assert render(values=_spec(key=None, inference={"method": "svb", "minibatch": None}))


def test_a_model_of_ones_own_needs_its_package_to_be_named() -> None:
    spec = _spec(model={"kind": "shop.models:Visits", "anything": [1]})
    found = {str(each) for each in render(values={**spec, "ownModels": ["shop.models", "other"]})}
    assert any("'STREAMINFER_OWN_MODELS', 'value': 'shop.models,other'" in each for each in found)
