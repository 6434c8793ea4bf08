"""The rights of each program: those that are needed, by the declaration of topics and the table of roles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streaminfer.runtime.rights import Grant, rights
from streaminfer.services import ROLES
from streaminfer.spec import Spec, parse_spec
from tests.cli.conftest import Workplace

COIN: dict[str, Any] = {"name": "coin", "data": {"partitions": 2}, "model": {"kind": "bernoulli", "field": "y"}}
LINE = {"kind": "linear_regression", "features": ["x"], "target": "y"}
WRITES = ("Write", "DescribeConfigs")
BOTH = ("Read", *WRITES)


def of(spec: Spec, role: str) -> dict[str, tuple[str, ...]]:
    """A program's operations by `type name` or, for a prefix, `type name*`."""
    return {said(each): each.operations for each in rights(spec, ROLES) if each.role == role}


def said(grant: Grant) -> str:
    kind = grant.resource
    return f"{kind.type} {kind.name}{'*' if kind.pattern == 'prefix' else ''}"


def test_a_worker_and_a_master() -> None:
    spec = parse_spec(COIN)
    common = {"topic coin.health": WRITES, "topic coin.dead-letters": WRITES}
    assert of(spec, "svb-worker") == {
        **common, "group coin.svb-worker": ("Read",), "topic coin.events": ("Read",),
        "topic coin.increments": WRITES, "topic coin.posterior": ("Read",),
    }  # fmt: skip
    assert of(spec, "master") == {
        **common, "group coin.master": ("Read",), "topic coin.events": ("Describe",),
        "topic coin.increments": ("Read",), "topic coin.posterior": BOTH, "transactionalId coin.master.*": ("Write",),
    }  # fmt: skip


def test_commands() -> None:
    spec = parse_spec(COIN)
    assert of(spec, "subscribe") == {"topic coin.posterior": ("Read",)}
    assert of(spec, "produce") == {
        "group coin.produce.*": ("Read",), "transactionalId coin.produce.*": ("Write",),
        "topic coin.events": BOTH, "topic coin.posterior": ("Read",),
    }  # fmt: skip
    assert of(spec, "topics") == {"topic coin.*": ("Create", "Alter", "DescribeConfigs")}


def test_marks_of_until_idle_are_only_for_those_who_look_for_them() -> None:
    assert "group coin.until-idle" not in of(parse_spec(COIN), "svb-worker")
    prompt = parse_spec({**COIN, "inference": {"linger_ms": 0}})
    assert of(prompt, "svb-worker")["group coin.until-idle"] == ("Describe",)
    sampled = parse_spec({"name": "line", "model": LINE, "inference": {"method": "mala"}})
    assert of(sampled, "master")["group line.until-idle"] == ("Describe",)


def test_an_external_topic_is_never_written() -> None:
    spec = parse_spec({**COIN, "data": {"topic": "orders"}})
    found = [each for each in rights(spec, ROLES) if each.resource.name == "orders"]
    assert {each.role for each in found} >= {"svb-worker", "master", "monitor", "topics"}
    assert not {"Write", "Create", "Alter", "DescribeConfigs"} & {one for each in found for one in each.operations}
    assert not [each for each in rights(spec, ROLES) if each.resource.name == "coin.events"]


@pytest.mark.parametrize("method", ["svb", "mala"])
def test_each_service_of_a_spec_has_rights_and_no_other_has(method: str) -> None:
    spec = parse_spec({"name": "line", "model": LINE, "inference": {"method": method}})
    services = {role.name for role in ROLES.values() if role.needed(spec)}
    assert {each.role for each in rights(spec, ROLES)} & set(ROLES) == services
    for each in rights(spec, ROLES):
        assert each.resource.name.startswith("line.")
        assert each.operations


def test_names_on_a_cluster_begin_with_the_namespace(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    (found,) = place.call("acls", place.spec, "--bus", "kafka://localhost:9/team", "--json").documents
    assert isinstance(found, list)
    assert {"role": "master", "resource": {"type": "transactionalId", "name": "team.coin.master.",
            "pattern": "prefix"}, "operations": ["Write"]} in found  # fmt: skip
    assert all(each["resource"]["name"].startswith("team.coin.") for each in found)


def test_as_a_table(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    lines = place.call("acls", place.spec, "--bus", "kafka://localhost:9").out.splitlines()
    assert lines[0].split() == ["role", "resource", "name", "pattern", "operations"]
    assert ["produce", "transactionalId", "coin.produce.", "prefix", "Write"] in [line.split() for line in lines]
