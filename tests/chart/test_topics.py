"""Topics and rights in the chart are those of the declaration, for specs of every kind."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from streaminfer.bus.broker.topics import kept_as
from streaminfer.runtime import names
from streaminfer.runtime.rights import rights
from streaminfer.services import ROLES
from streaminfer.spec import parse_spec
from tests.chart.helm import Object, render
from tests.chart.objects import of_kind

POISSON = {"kind": "poisson", "field": "k"}
LOGISTIC = {"kind": "logistic_regression", "features": ["a"], "target": "t"}
LDA = {"kind": "lda", "field": "words"}
SPECS: dict[str, dict[str, Any]] = {
    "smallest": {"model": POISSON},
    "partitions": {"model": POISSON, "data": {"partitions": 7}, "inference": None},
    "external": {"model": POISSON, "data": {"topic": "web.clicks"}},
    "keyed": {"model": POISSON, "key": "shop"},
    "shards": {"model": POISSON, "key": {"field": "shop", "shards": 5}},
    "pooled": {"model": POISSON, "key": {"field": "shop", "default": "pooled"}},
    "half-life": {"model": POISSON, "inference": {"forget": {"half_life_events": 100}}},
    "window-events": {"model": POISSON, "inference": {"forget": {"window_events": 1000}}},
    "window-seconds": {"model": POISSON, "inference": {"method": "svb", "forget": {"window_seconds": 60}}},
    "svi": {"model": LOGISTIC, "inference": {"method": "svi"}},
    "memoized": {"model": LOGISTIC, "inference": {"method": "memoized"}},
    "lda": {"model": {**LDA, "topics": 3, "shards": 4}},
    "lda-memoized": {"model": {**LDA, "topics": 3}, "inference": {"method": "memoized"}},
    "mala": {"model": LOGISTIC, "inference": {"method": "mala"}},
    "chains": {"model": LOGISTIC, "inference": {"method": "mala", "chains": 7}},
    "sampled-external": {"model": LOGISTIC, "data": {"topic": "x"}, "inference": {"method": "mala"}},
    "sampled-window": {"model": LOGISTIC, "inference": {"method": "mala", "forget": {"window_events": 1000}}},
    "stream": {"model": LOGISTIC, "inference": {"method": "sgld", "source": "stream"}},
    "parts": {"model": LOGISTIC, "inference": {"method": "mala", "subposteriors": 2, "chains": 3}},
    "combined": {"model": LOGISTIC, "data": {"partitions": 5}, "inference": {"method": "mala", "combine": "average"}},
    "one-part": {"model": LOGISTIC, "inference": {"method": "mala", "subposteriors": 1, "combine": {"by": "average"}}},
    "gibbs": {"model": LOGISTIC, "inference": {"method": "gibbs"}},
    "flymc": {"model": LOGISTIC, "inference": {"method": "flymc"}},
}
every_spec = pytest.mark.parametrize("name", SPECS)


@cache
def objects() -> list[Object]:
    """All of them at once, by Strimzi, with a namespace."""
    return render(
        values={
            "specs": [{"spec": {"name": name, **rest}} for name, rest in SPECS.items()],
            "topics": {"create": "strimzi"},
            "strimzi": {"cluster": "events"},
            "kafka": {"namespace": "n"},
            "fullnameOverride": "x",
        }
    )


@every_spec
def test_topics_are_made_as_declared(name: str) -> None:
    spec = parse_spec({"name": name, **SPECS[name]})
    found = [each["spec"] for each in of_kind(objects(), "KafkaTopic").values()]
    mine = {each["topicName"]: each for each in found if each["topicName"].startswith(f"n.{name}.")}
    wanted = {f"n.{each.name}": each for each in names.topics_of(spec)}
    assert {topic: each["partitions"] for topic, each in mine.items()} == {
        topic: each.partitions for topic, each in wanted.items()
    }
    for topic, each in mine.items():
        assert each["config"].items() >= kept_as(wanted[topic]).items()


@every_spec
def test_users_have_the_rights_that_acls_prints(name: str) -> None:
    """And may ask for the marks of `up --until-idle`, which only some services of some specs do."""
    spec = parse_spec({"name": name, **SPECS[name]})
    users = of_kind(objects(), "KafkaUser")
    granted = rights(spec, ROLES, lambda each: f"n.{each}")
    idle = ("group", f"n.{names.until_idle_group(spec)}", "literal", ("Describe",))
    services = {each.role for each in granted if each.role in ROLES or each.role == "subscribe"}
    assert len(services) == 4
    for role in services:
        wanted = {
            (each.resource.type, each.resource.name, each.resource.pattern, each.operations)
            for each in granted
            if each.role == role
        }
        user = users["x-monitor" if role == "monitor" else f"x-{name}-{role}"]
        acls = user["spec"]["authorization"]["acls"]
        found = {
            (
                each["resource"]["type"],
                each["resource"]["name"],
                each["resource"]["patternType"],
                tuple(each["operations"]),
            )
            for each in acls
            if role != "monitor"
            or f"n.{name}." in each["resource"]["name"]
            or each["resource"]["name"] == f"n.{spec.data.topic}"
        }
        assert found - {idle} == wanted - {idle}, role
        assert role != "subscribe" or idle not in found
        assert len(acls) == len({str(each["resource"]) for each in acls}) or role == "monitor"


def test_nobody_but_its_owner_has_a_user() -> None:
    """A KafkaUser for each service of each spec and for its subscribers, and one for the monitor."""
    owners = {"x-monitor"}
    for name, rest in SPECS.items():
        spec = parse_spec({"name": name, **rest})
        owners |= {f"x-{name}-{role.name}" for role in ROLES.values() if role.needed(spec) and role.name != "monitor"}
        owners.add(f"x-{name}-subscribe")
    assert set(of_kind(objects(), "KafkaUser")) == owners
