"""The alert rules and the dashboard: Prometheus takes them, and they ask for metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from streaminfer.runtime.telemetry import MonitorMetrics
from tests.docs.pages import PAGES, ROOT

FOLDER = ROOT / "docs" / "monitoring"
LABELS = {"posterior", "check", "service"}
METRIC = re.compile(r"streaminfer_\w+")


@pytest.fixture(scope="module")
def page() -> str:
    """What a monitor serves."""
    registry = CollectorRegistry()
    metrics = MonitorMetrics(registry, "demo")
    metrics.check("audit", 0, 1)
    metrics.service("master", 1, 0)
    return generate_latest(registry).decode()


def promtool(*arguments: str) -> str:
    """Runs it beside the rules; fails if it is not installed, as tests that check nothing are worse than none."""
    found = shutil.which("promtool")
    assert found is not None, "promtool is missing: install the package prometheus (tests/brokers/install.sh does)"
    done = subprocess.run([found, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_rules() -> None:
    assert "SUCCESS: 6 rules found" in promtool("check", "rules", "alerts.yaml")


def test_every_alert_fires_and_stays_silent_without_a_reason() -> None:
    promtool("test", "rules", "alerts-test.yaml")
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
    tests = yaml.safe_load((FOLDER / "alerts-test.yaml").read_text())["tests"]
    tried = {each["alertname"] for test in tests for each in test["alert_rule_test"]}
    assert tried == {rule["alert"] for rule in rules}


def _exprs() -> list[str]:
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
    board: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text())
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [*(rule["expr"] for rule in rules), *panels]


def test_rules_and_panels_ask_for_metrics_that_a_monitor_has(page: str) -> None:
    served = set(re.findall(r"^(streaminfer_\w+)\{", page, re.MULTILINE))
    for expr in _exprs():
        assert set(METRIC.findall(expr)) <= served, expr
        for labels in re.findall(r"by \(([^)]*)\)", expr):
            assert set(labels.split(", ")) <= LABELS


def test_labels_are_few_and_never_a_key(page: str) -> None:
    found = {label for labels in re.findall(r"\{([^}]*)\}", page) for label in re.findall(r"(\w+)=", labels)}
    assert found == LABELS


def test_the_page_names_every_gauge_that_is_served(page: str) -> None:
    named = set(re.findall(r"`(streaminfer_monitor_\w+)`", PAGES["docs/monitor.md"]))
    assert named <= set(METRIC.findall(page))
    assert len(named) >= 8


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    board: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text())
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in board["panels"]]
    assert len(set(places)) == len(places)
    assert len({each["id"] for each in board["panels"]}) == len(places)
