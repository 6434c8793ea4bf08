"""The files of the chart that follow from others are up to date, and helm finds nothing to say of it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.chart.deriving import CHART, ROOT, files
from tests.chart.helm import KUBERNETES, run
from tests.chart.objects import SCENARIOS

DERIVED = files()


@pytest.mark.parametrize("path", DERIVED, ids=lambda path: path.name)
def test_derived_files_are_those_of_the_declaration(path: Path) -> None:
    assert path.read_text() == DERIVED[path], f"run `make chart`: {path.relative_to(ROOT)} is not up to date"


@pytest.mark.parametrize("name", SCENARIOS)
def test_helm_has_nothing_to_say(name: str) -> None:
    values = [part for path in SCENARIOS[name] for part in ("-f", str(path))]
    assert "0 chart(s) failed" in run("lint", "--strict", "--kube-version", KUBERNETES, *values, str(CHART))


def test_every_value_has_a_default_that_the_schema_allows_and_none_is_left_out() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    assert set(schema["properties"]) - set(values) == {"global", "enabled"}
    assert not (set(values) - set(schema["properties"]))


def test_the_versions_are_those_of_the_package() -> None:
    package = (ROOT / "pyproject.toml").read_text()
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f'\nversion = "{chart["appVersion"]}"\n' in package
