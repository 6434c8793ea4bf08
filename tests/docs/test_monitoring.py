"""The alert rules and the dashboard: Prometheus takes them, and they ask for metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from streaminfer import parse_spec
from streaminfer.cli import COMMANDS
from streaminfer.runtime.telemetry import (
    MasterMetrics,
    MonitorMetrics,
    SamplerMetrics,
    SubscriberMetrics,
    WorkerMetrics,
    about_process,
)
from streaminfer.variational import fold
from streaminfer.variational.drift import watching
from tests.docs.pages import PAGES, ROOT

FOLDER = ROOT / "docs" / "monitoring"
LABELS = {"posterior", "check", "service", "shard", "outcome", "version", "python"}
RUNBOOK = PAGES["docs/runbook.md"]
METRIC = re.compile(r"streaminfer_\w+")


@pytest.fixture(scope="module")
def page() -> str:
    """What services serve."""
    registry = CollectorRegistry()
    metrics = MonitorMetrics(registry, "demo")
    metrics.check("audit", 0, 1)
    metrics.service("master", 1, 0)
    about_process(registry)
    spec = parse_spec({"name": "demo", "model": {"kind": "bernoulli", "field": "y"}})
    master = MasterMetrics(registry, "demo")
    snapshot = replace(fold.start(spec.model, spec.fingerprint), drift=watching.started(None, 50))
    master.tell(0, snapshot, 0.0, scored=True)
    master.behind(0, 1)
    master.outcome("folded")
    for kind in (WorkerMetrics, SamplerMetrics, SubscriberMetrics):
        kind(registry, "demo")
    return generate_latest(registry).decode()


def promtool(*arguments: str) -> str:
    """Runs it beside the rules; fails if it is not installed, as tests that check nothing are worse than none."""
    found = shutil.which("promtool")
    assert found is not None, "promtool is missing: install the package prometheus (tests/brokers/install.sh does)"
    done = subprocess.run([found, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_rules() -> None:
    assert f"SUCCESS: {len(rules())} rules found" in promtool("check", "rules", "alerts.yaml")


def test_every_alert_fires_and_stays_silent_without_a_reason() -> None:
    promtool("test", "rules", "alerts-test.yaml")
    tests = yaml.safe_load((FOLDER / "alerts-test.yaml").read_text())["tests"]
    tried = {each["alertname"] for test in tests for each in test["alert_rule_test"]}
    assert tried == {rule["alert"] for rule in rules()}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_alert_has_a_section_in_the_runbook() -> None:
    sections = dict(re.findall(r"^### (Streaminfer\w+)\n(.*?)(?=^#|\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))
    assert set(sections) == {rule["alert"] for rule in rules()}
    for name, text in sections.items():
        assert "**It means**" in text, name
        assert "**Do**" in text, name


def test_the_runbook_names_commands_and_metrics_that_there_are(page: str) -> None:
    commands = set(re.findall(r"`streaminfer ([a-z-]+)", RUNBOOK))
    assert commands <= set(COMMANDS)
    assert set(METRIC.findall(RUNBOOK)) <= set(METRIC.findall(page))


def _exprs() -> list[str]:
    board: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text())
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [*(rule["expr"] for rule in rules()), *panels]


def test_rules_and_panels_ask_for_metrics_that_a_monitor_has(page: str) -> None:
    served = set(re.findall(r"^(streaminfer_\w+)\{", page, re.MULTILINE))
    for expr in _exprs():
        named = set(METRIC.findall(expr.replace("(worker|master|sampler|monitor)", "worker")))
        assert named <= served, expr
        for labels in re.findall(r"by \(([^)]*)\)", expr):
            assert set(labels.split(", ")) <= LABELS


def test_labels_are_few_and_never_a_key(page: str) -> None:
    ours = "".join(line for line in page.splitlines() if line.startswith("streaminfer_"))
    found = {label for labels in re.findall(r"\{([^}]*)\}", ours) for label in re.findall(r"(\w+)=", labels)}
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
