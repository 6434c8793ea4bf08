"""Every pod of every scenario: what it may do, what it runs, and that all it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from streaminfer.bus.broker.settings import settings_from
from streaminfer.bus.connect import open_bus
from streaminfer.cli import parser_of
from streaminfer.http.guarding.guard import is_loopback
from streaminfer.runtime.registry import settings as registry
from streaminfer.runtime.role import needed
from streaminfer.runtime.running.health import parse_address
from streaminfer.services import ROLES
from streaminfer.spec import Spec, load_spec
from tests.chart.helm import Object
from tests.chart.objects import SCENARIOS, Pod, environment, of_kind, pods, scenario, strings

every_scenario = pytest.mark.parametrize("name", SCENARIOS)


@every_scenario
def test_pod_security_is_restricted(name: str) -> None:
    for pod in pods(scenario(name)):
        assert not pod.spec["automountServiceAccountToken"]
        assert not pod.spec["enableServiceLinks"]
        assert pod.spec["securityContext"]["runAsNonRoot"]
        assert pod.spec["securityContext"]["runAsUser"] == pod.spec["securityContext"]["fsGroup"] == 65532
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod.spec)
        assert {next(iter(set(volume) - {"name"})) for volume in pod.spec.get("volumes", ())} <= {
            "emptyDir",
            "configMap",
            "secret",
        }
        for container in pod.containers:
            allowed = container["securityContext"]
            assert allowed["runAsNonRoot"]
            assert not allowed["allowPrivilegeEscalation"]
            assert allowed["capabilities"] == {"drop": ["ALL"]}
            assert allowed["seccompProfile"] == {"type": "RuntimeDefault"}
            assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
        for container in pod.ours:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert "cpu" not in container["resources"]["limits"]
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])


@every_scenario
def test_what_serves_is_probed_without_a_token_and_metrics_have_one(name: str) -> None:
    for pod in pods(scenario(name)):
        for container in pod.ours:
            serving = "--http" in container["args"]
            assert serving == (pod.workload["kind"] == "Deployment"), pod.name
            if not serving:
                continue
            (port,) = container["ports"]
            host, number, token = parse_address(
                container["args"][container["args"].index("--http") + 1], {"STREAMINFER_HTTP_TOKEN": "t"}
            )
            assert (number, token) == (port["containerPort"], "t")
            assert not is_loopback(host)
            paths = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
            first = "/readyz" if container["name"] == "posterior" else "/healthz"
            assert paths == {"startupProbe": first, "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
            assert {container[probe]["httpGet"]["port"] for probe in paths} == {port["name"]}
            assert environment(container)["STREAMINFER_HTTP_TOKEN_FILE"] == "/etc/streaminfer-http/token"  # noqa: S105


@every_scenario
def test_volumes_are_mounted_and_what_they_hold_exists(name: str) -> None:
    objects = scenario(name)
    given = set(strings([yaml.safe_load(path.read_text()) for path in SCENARIOS[name]]))
    there = {kind: set(of_kind(objects, kind)) | given for kind in ("ConfigMap", "Secret", "ServiceAccount")}
    there["Secret"] |= set(of_kind(objects, "KafkaUser")) | {f"{each}-cluster-ca-cert" for each in given}
    for pod in pods(objects):
        volumes = {each["name"]: each for each in pod.spec.get("volumes", ())}
        mounted = {mount["name"] for each in pod.containers for mount in each.get("volumeMounts", ())}
        assert set(volumes) == mounted, pod.name
        assert pod.spec["serviceAccountName"] in there["ServiceAccount"]
        for each in volumes.values():
            assert each.get("configMap", {}).get("name") in there["ConfigMap"] | {None}, pod.name
            assert each.get("secret", {}).get("secretName") in there["Secret"] | {None}, pod.name
        for container in pod.ours:
            places = _files(pod, container)
            for variable, value in environment(container).items():
                if variable.endswith("_FILE"):
                    assert value in places, f"{pod.name}: {variable}"
            for variable in container["env"]:
                source = variable.get("valueFrom", {}).get("secretKeyRef")
                assert source is None or source["name"] in there["Secret"]


def _files(pod: Pod, container: Object) -> set[str]:
    """Where files of Secrets and ConfigMaps with chosen keys are in a container."""
    volumes = {each["name"]: each for each in pod.spec["volumes"]}
    found = set()
    for mount in container["volumeMounts"]:
        volume = volumes[mount["name"]]
        for item in (volume.get("secret") or volume.get("configMap") or {}).get("items", ()):
            found.add(f"{mount['mountPath']}/{item['path']}")
    return found


@every_scenario
def test_the_program_takes_its_arguments_and_its_spec(name: str, tmp_path: Path) -> None:
    objects = scenario(name)
    for pod in pods(objects):
        for container in pod.ours:
            arguments = [each.replace("$(POD_NAME)", "pod-1") for each in container["args"]]
            options = parser_of((arguments[0],)).parse_args(arguments)
            files = options.spec if isinstance(options.spec, list) else [options.spec]
            specs = [_mounted(objects, pod, container, file, tmp_path) for file in files]
            if options.command == "run":
                assert options.instance == "pod-1"
                assert options.service in [role.name for role in needed(ROLES, specs[0])], pod.name
                assert options.service == "monitor" or len(specs) == 1


def _mounted(objects: tuple[Object, ...], pod: Pod, container: Object, file: str, home: Path) -> Spec:
    """The spec that a container finds in a file, with the files beside it."""
    (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == str(Path(file).parent)]
    (volume,) = [each for each in pod.spec["volumes"] if each["name"] == mount["name"]]
    data = of_kind(objects, "ConfigMap")[volume["configMap"]["name"]]["data"]
    folder = home / mount["name"]
    folder.mkdir(exist_ok=True)
    for name, text in data.items():
        (folder / name).write_text(text)
    return load_spec(folder / Path(file).name)


@every_scenario
def test_every_service_of_every_spec_runs_with_a_standby(name: str, tmp_path: Path) -> None:
    objects = scenario(name)
    running = {}
    for pod in pods(objects):
        for container in pod.ours:
            if container["args"][0] == "run" and container["args"][1] != "monitor":
                spec = _mounted(objects, pod, container, container["args"][2], tmp_path)
                running[spec.name, container["args"][1]] = pod.workload, spec
    for (_, service), (deployment, spec) in running.items():
        replicas = deployment["spec"].get("replicas")
        if service == "master":
            assert replicas == spec.shards + 1
        elif service == "combiner":
            assert replicas == 2
        elif service == "sampler":
            assert spec.sampling is not None
            assert 1 <= replicas <= spec.sampling.n_units
        else:
            assert (replicas is None) == bool(of_kind(objects, "ScaledObject"))
        assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        assert deployment["spec"]["minReadySeconds"] > 0
    for spec in {spec.name: spec for _, spec in running.values()}.values():
        wanted = {role.name for role in needed(ROLES, spec)} - {"monitor"}
        assert {service for owner, service in running if owner == spec.name} == wanted


@every_scenario
def test_the_settings_of_the_bus_are_such_that_it_opens(name: str, tmp_path: Path) -> None:
    for pod in pods(scenario(name)):
        for container in pod.ours:
            known = {"STREAMINFER_KAFKA_USERNAME": "u", "STREAMINFER_SCHEMA_REGISTRY_USERNAME": "u"}
            asked = {each["name"] for each in container["env"]}
            environ = {k: v for k, v in known.items() if k in asked} | environment(container)
            for variable in [each for each in environ if each.endswith("_FILE")]:
                file = tmp_path / re.sub(r"\W", "_", environ[variable])
                file.write_text("x")
                environ[variable] = str(file)
            settings_from(environ)
            registry.settings_from(environ)
            open_bus(environ["STREAMINFER_BUS"]).close()
