"""Objects that find others by labels and names: each finds what it is for, and nothing else."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
import yaml

from streaminfer.spec import load_spec, parse_spec
from tests.chart.deriving import CHART, ROOT
from tests.chart.helm import Object, render
from tests.chart.objects import SCENARIOS, Pod, environment, of_kind, pods, scenario, selected

every_scenario = pytest.mark.parametrize("name", SCENARIOS)


def _chosen(objects: tuple[Object, ...], selector: Object) -> list[Pod]:
    return [pod for pod in pods(objects) if selected(selector, pod.metadata.get("labels", {}))]


@every_scenario
def test_names_are_used_once_and_fit(name: str) -> None:
    objects = scenario(name)
    named = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(named) == len(set(named))
    assert all(len(each) <= 63 for _, each in named)


@every_scenario
def test_workloads_and_budgets_choose_the_pods_of_one_workload(name: str) -> None:
    objects = scenario(name)
    deployments = of_kind(objects, "Deployment")
    for each in deployments.values():
        assert [pod.workload for pod in _chosen(objects, each["spec"]["selector"])] == [each]
        spread = each["spec"]["template"]["spec"].get("topologySpreadConstraints", ())
        for rule in spread:
            assert [pod.workload for pod in _chosen(objects, rule["labelSelector"])] == [each]
            assert rule["whenUnsatisfiable"] == "ScheduleAnyway"
    budgets = of_kind(objects, "PodDisruptionBudget")
    for budget in budgets.values():
        (pod,) = _chosen(objects, budget["spec"]["selector"])
        assert pod.workload["metadata"]["name"] == budget["metadata"]["name"]
        assert budget["spec"]["maxUnavailable"] == 1  # a drain goes on, one pod at a time
    assert set(budgets) == (set(deployments) if name != "existing-topics" else set())


@every_scenario
def test_services_and_monitors_lead_to_ports_that_there_are(name: str) -> None:
    objects = scenario(name)
    services = of_kind(objects, "Service")
    for service in services.values():
        chosen = _chosen(objects, {"matchLabels": service["spec"]["selector"]})
        (port,) = service["spec"]["ports"]
        assert chosen
        for pod in chosen:
            assert port["targetPort"] in {each["name"] for part in pod.ours for each in part.get("ports", ())}
    serving = [
        pod.name for pod in pods(objects) if any("--http" in each.get("args", ()) for each in pod.spec["containers"])
    ]
    (metrics,) = [each for name, each in services.items() if name.endswith("-metrics")]
    assert [pod.name for pod in _chosen(objects, {"matchLabels": metrics["spec"]["selector"]})] == serving
    for monitor in of_kind(objects, "ServiceMonitor").values():
        (found,) = [
            each for each in services.values() if selected(monitor["spec"]["selector"], each["metadata"]["labels"])
        ]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] in {each["name"] for each in found["spec"]["ports"]}
        held = of_kind(objects, "Secret")[endpoint["authorization"]["credentials"]["name"]]
        assert endpoint["authorization"]["credentials"]["key"] in held["data"]
    for ingress in of_kind(objects, "Ingress").values():
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                assert backend["port"]["name"] in {each["name"] for each in services[backend["name"]]["spec"]["ports"]}


@every_scenario
def test_the_network_policy_lets_pods_reach_what_they_are_told_to_use(name: str) -> None:
    objects = scenario(name)
    policies = of_kind(objects, "NetworkPolicy")
    for pod in pods(objects):
        labels = pod.metadata["labels"]
        rules = [each["spec"] for each in policies.values() if selected(each["spec"]["podSelector"], labels)]
        if labels["app.kubernetes.io/component"] in {"subscriber", "test"} or name == "existing-topics":
            assert not rules  # a program of the user's own goes where it likes; a test asks the monitor
            continue
        (leaving,) = [each["egress"] for each in rules if "Egress" in each["policyTypes"]]
        open_ports = {port["port"] for rule in leaving for port in rule["ports"]}
        assert 53 in open_ports
        for container in pod.ours:
            variables = environment(container)
            servers = variables["STREAMINFER_BUS"].removeprefix("kafka://").partition("/")[0]
            assert {int(each.rpartition(":")[2]) for each in servers.split(",")} <= open_ports
            registry = variables.get("STREAMINFER_SCHEMA_REGISTRY_URL")
            assert registry is None or {443, 8081} & open_ports
        entering = [rule for each in rules if "Ingress" in each["policyTypes"] for rule in each["ingress"]]
        assert entering
        assert all(rule["ports"] == [{"port": "http", "protocol": "TCP"}] for rule in entering)
        assert all(rule["from"] for rule in entering)


def test_peers_of_the_policy_are_those_of_the_values() -> None:
    policies = of_kind(scenario("tls-scram"), "NetworkPolicy")
    leaving = policies["r-streaminfer-services"]["spec"]["egress"]
    found = {each["ports"][0]["port"]: each.get("to") for each in leaving}
    assert found == {
        53: None,
        9093: [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        443: [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
        3128: None,
    }
    assert ipaddress.ip_network(found[9093][0]["ipBlock"]["cidr"])
    found = [_peers(scenario("tls-scram"), component) for component in ("worker", "monitor")]
    spaces = [
        [each["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for each in peers] for peers in found
    ]
    assert spaces == [["monitoring"], ["ingress-nginx", "monitoring"]]


def test_only_its_own_peers_reach_the_monitor_if_they_are_named() -> None:
    peer = {"podSelector": {"matchLabels": {"app": "proxy"}}}
    objects = tuple(render(values={"networkPolicy": {"monitorFrom": [peer]}}))
    assert _peers(objects, "monitor") == [peer]
    assert _peers(objects, "worker") == [{"namespaceSelector": {}}]


def _peers(objects: tuple[Object, ...], component: str) -> list[Object]:
    """All who may come to the pods of a component: policies add up."""
    labels = next(
        pod.metadata["labels"]
        for pod in pods(objects)
        if pod.metadata["labels"]["app.kubernetes.io/component"] == component
    )
    rules = [each["spec"] for each in of_kind(objects, "NetworkPolicy").values()]
    return [
        peer
        for rule in rules
        if selected(rule["podSelector"], labels)
        for each in rule["ingress"]
        for peer in each["from"]
    ]


def test_keda_scales_workers_within_their_partitions_by_the_group_that_they_are_in() -> None:
    objects = scenario("keda-prometheus")
    scaled = of_kind(objects, "ScaledObject")
    workers = [name for name in of_kind(objects, "Deployment") if name.endswith("-worker")]
    assert sorted(scaled) == sorted(workers)
    for each in scaled.values():
        assert each["spec"]["scaleTargetRef"]["name"] in workers
        assert each["spec"]["minReplicaCount"] == 1
    asked = {name: each["spec"]["triggers"][0]["metadata"] for name, each in scaled.items()}
    assert scaled["r-streaminfer-prices-worker"]["spec"]["maxReplicaCount"] == 6
    assert asked["r-streaminfer-prices-worker"]["consumerGroup"] == "prices.svb-worker"
    assert asked["r-streaminfer-prices-worker"]["topic"] == "prices.events"
    assert asked["r-streaminfer-clicks-worker"]["consumerGroup"] == "clicks.svi-worker"
    assert asked["r-streaminfer-clicks-worker"]["topic"] == "web.clicks"


def test_keda_never_starts_more_workers_than_there_are_partitions() -> None:
    keda = {"enabled": True, "maxReplicas": 100}
    (scaled,) = of_kind(render(values={"keda": keda}), "ScaledObject").values()
    assert scaled["spec"]["maxReplicaCount"] == 4


def test_the_alert_rules_are_those_of_the_documentation() -> None:
    (rules,) = of_kind(scenario("keda-prometheus"), "PrometheusRule").values()
    assert rules["spec"] == yaml.safe_load((ROOT / "docs" / "monitoring" / "alerts.yaml").read_text())


def test_a_spec_is_installed_as_it_was_written(tmp_path: Path) -> None:
    """Numbers as they were, neither rounded nor as text; and the files that the spec names."""
    entries = yaml.safe_load((CHART / "ci" / "many-specs-values.yaml").read_text())["specs"]
    for entry in entries:
        data = of_kind(scenario("many-specs"), "ConfigMap")[f"posteriors-{entry['spec']['name']}-spec"]["data"]
        for name, text in data.items():
            (tmp_path / name).write_text(text)
        assert load_spec(tmp_path / "spec.yaml").document == parse_spec(entry["spec"], folder=tmp_path).document
        assert {name: text for name, text in data.items() if name != "spec.yaml"} == entry.get("files", {})


def _annotations(values: Object) -> dict[str, str]:
    """The hash of the spec by workload."""
    found = pods(render(CHART / "ci" / "many-specs-values.yaml", values=values))
    return {pod.name: pod.metadata.get("annotations", {}).get("checksum/spec", "") for pod in found}


def test_pods_roll_when_their_spec_changes_and_no_others() -> None:
    before = yaml.safe_load((CHART / "ci" / "many-specs-values.yaml").read_text())["specs"]
    after = yaml.safe_load(yaml.safe_dump(before))
    after[0]["spec"]["inference"]["minibatch"] = 64
    changed = {
        name.split("-topics")[0]
        for name, _ in set(_annotations({"specs": after}).items()) ^ set(_annotations({}).items())
    }
    assert changed == {
        "Deployment posteriors-shops-master",
        "Deployment posteriors-shops-worker",
        "Deployment posteriors-monitor",
        "Job posteriors-shops",
    }


def test_a_job_with_another_content_is_another_job() -> None:
    jobs = [set(of_kind(render(values={"image": {"tag": tag}}), "Job")) for tag in ("1", "1", "2")]
    assert jobs[0] == jobs[1]
    assert not jobs[0] & jobs[2]


def test_long_names_are_cut_and_stay_different() -> None:
    long = "a" * 39
    specs = [{"spec": {"name": long + end, "model": {"kind": "poisson", "field": "k"}}} for end in ("x", "y")]
    objects = render(values={"specs": specs}, release="r" * 53)
    assert all(len(each["metadata"]["name"]) <= 63 for each in objects)
    assert len(of_kind(objects, "Deployment")) == 5
