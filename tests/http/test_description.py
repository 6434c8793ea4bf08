"""The description of the API is valid, and true: schemathesis asks all that it allows, and all that it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema.validators import Draft202012Validator

from streaminfer.http.answering import answers
from streaminfer.http.guarding.limits import Limits
from streaminfer.http.schemas import SCHEMAS
from streaminfer.runtime.running import health
from tests.http.site import Job, Site, by_city, counted, site_of

TIRELESS = Limits(stream_seconds=0.05, rate=1e9, burst=1e9)
LONG = (pytest.mark.long, pytest.mark.timeout(2100))
CONFIG = """
[parameters]
key = "berlin"
"""


def schemathesis(site: Site, folder: Path, *arguments: str, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    """All checks; nothing depends on chance."""
    (folder / "schemathesis.toml").write_text(CONFIG if site.rig.spec.key is not None else "")
    url = f"http://127.0.0.1:{site.port}/openapi.json"
    command = [sys.executable, "-m", "schemathesis.cli", "run", url, "--checks=all", "--no-color",
               "--generation-deterministic", *arguments]  # fmt: skip
    return subprocess.run(command, text=True, capture_output=True, cwd=folder, timeout=timeout, check=False)


@pytest.mark.parametrize(
    ("job", "examples"),
    [
        pytest.param(by_city, 3, id="keyed"),
        pytest.param(counted, 3, id="single", marks=pytest.mark.long),
        pytest.param(by_city, 100, id="keyed-many", marks=LONG),
        pytest.param(counted, 100, id="single-many", marks=LONG),
    ],
)
def test_schemathesis_finds_nothing(
    job: type[Job], examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "UNHEALTHY_AFTER", 1e9)  # nobody steps meanwhile
    with site_of(job(), limits=TIRELESS) as site:
        phases = (f"--max-examples={examples}", "--phases=examples,coverage,fuzzing")
        found = schemathesis(site, tmp_path, *phases, timeout=280 if examples < 10 else 2000)
    assert found.returncode == 0, found.stdout[-8000:]
    assert "17 passed" in found.stdout or "16 passed" in found.stdout, found.stdout


def test_schemathesis_finds_a_field_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with site_of(counted(), limits=TIRELESS) as site:
        only = ("--include-path=/v1/posteriors/{name}/history", "--phases=coverage")
        whole = answers.json_answer

        def without(document: dict[str, object], etag: str | None = None) -> object:
            return whole({name: member for name, member in document.items() if name != "interval"}, etag)

        monkeypatch.setattr(answers, "json_answer", without)
        found = schemathesis(site, tmp_path, *only)
    assert found.returncode == 1
    assert "'interval' is a required property" in found.stdout or '"interval" is a required property' in found.stdout


def test_schemas_are_schemas_and_closed(site: Site) -> None:
    description = site.ask("/openapi.json").document
    assert description["openapi"] == "3.1.0"
    assert len(description["paths"]) >= 15
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    used = {reference for reference in str(description["paths"]).split("'") if reference.startswith("#/components")}
    assert {reference.rpartition("/")[2] for reference in used} == set(SCHEMAS)


def test_the_document_has_the_form_that_is_described(site: Site, cities: Site) -> None:
    components = {"components": {"schemas": SCHEMAS}}
    for here, path in ((site, site.one), (cities, cities.one), (cities, f"{cities.one}/keys/a%2Fb")):
        validator = Draft202012Validator({"$ref": "#/components/schemas/Posterior", **components})
        validator.validate(here.ask(path).document)
