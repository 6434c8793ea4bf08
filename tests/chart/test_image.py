"""The image and the example of Compose: what they run is what there is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from streaminfer.cli import parser_of
from streaminfer.runtime.role import needed
from streaminfer.services import ROLES
from streaminfer.spec import load_spec
from tests.chart.deriving import ROOT

FOLDER: Final = ROOT / "docs" / "deploy"
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text()
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
OURS: Final = {name: each for name, each in COMPOSE["services"].items() if each["image"] == "streaminfer"}


def test_the_base_is_named_by_its_digest_in_a_build_argument() -> None:
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}"}


def test_the_image_has_locked_wheels_an_unprivileged_user_and_what_is_copied_exists() -> None:
    installs = [line for line in DOCKERFILE.splitlines() if "pip" in line and " install " in line]
    assert len(installs) == 3
    assert all("--require-hashes --only-binary :all: -r requirements.lock" in each for each in installs[:2])
    assert "--no-deps /wheels/*.whl" in installs[2]
    final = DOCKERFILE.rpartition("FROM ")[2]
    assert "\nUSER 65532:65532\n" in final
    assert 'ENTRYPOINT ["streaminfer"]' in final
    for line in re.findall(r"^COPY (?!--)(.*)$", DOCKERFILE, re.MULTILINE):
        assert all((ROOT / each).exists() for each in line.split()[:-1]), line


def test_every_service_of_the_spec_is_in_the_example_and_takes_its_arguments() -> None:
    runs = set()
    for name, each in OURS.items():
        arguments = [str(part).replace("/etc/streaminfer", str(ROOT / "docs" / "examples")) for part in each["command"]]
        options = parser_of((arguments[0],)).parse_args(arguments)
        spec = load_spec(options.spec[0] if isinstance(options.spec, list) else options.spec)
        if options.command == "run":
            runs.add(options.service)
            assert name in {ROLES[options.service].short, options.service}
        assert not hasattr(options, "file") or Path(options.file).exists()
    assert runs == {role.name for role in needed(ROLES, spec)}


@pytest.mark.parametrize("name", OURS)
def test_containers_of_ours_may_do_nothing_else(name: str) -> None:
    each = OURS[name]
    assert each["read_only"]
    assert each["cap_drop"] == ["ALL"]
    assert each["security_opt"] == ["no-new-privileges"]
    assert not any("TOKEN" in variable and not variable.endswith("_FILE") for variable in each["environment"])


def test_ports_are_open_to_this_machine_only_and_files_exist() -> None:
    for each in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in each.get("ports", ()))
        for volume in each.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (FOLDER / source).resolve().is_relative_to(ROOT)
            assert source in COMPOSE["volumes"] or (FOLDER / source).exists(), volume
        assert all(other in COMPOSE["services"] for other in each.get("depends_on", ()))
        assert re.search(r":[^/:]+$", each["image"]) or each["image"] == "streaminfer", "pinned"


def test_prometheus_takes_its_configuration_and_finds_every_service(tmp_path: Path) -> None:
    text = (FOLDER / "prometheus.yaml").read_text()
    (tmp_path / "prometheus.yaml").write_text(text.replace("/run/secrets/token", str(tmp_path / "token")))
    (tmp_path / "token").write_text("t")
    (tmp_path / "alerts.yaml").write_text((ROOT / "docs" / "monitoring" / "alerts.yaml").read_text())
    done = subprocess.run(
        ["promtool", "check", "config", "prometheus.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = yaml.safe_load(text)["scrape_configs"]
    names = job["dns_sd_configs"][0]["names"]
    assert set(names) == {name for name, each in OURS.items() if "--http" in each["command"]}
