"""The values that the page on Kubernetes shows are such that the chart takes them, and it names all that exist."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.chart.deriving import CHART
from tests.chart.helm import render
from tests.docs.pages import BLOCK, PAGES

PAGE = PAGES["docs/kubernetes.md"]
VALUES = [text for kind, text in BLOCK.findall(PAGE) if kind == "yml"]


@pytest.mark.parametrize("text", VALUES, ids=range(len(VALUES)))
def test_values_on_the_page_render(text: str) -> None:
    assert len(render(values=yaml.safe_load(text))) > 4


def test_the_table_of_values_names_each_of_them() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    named = set(re.findall(r"`(\w+)", PAGE))
    assert set(values) - named == {"nameOverride", "fullnameOverride", "tests"}
