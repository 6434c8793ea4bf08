"""The README's commands are run and its outputs compared; what it names is there."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, play, shell_in

README = (ROOT / "README.md").read_text()


@pytest.mark.xdist_group("processes")
def test_commands_and_outputs(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert play(README, shell_in(tmp_path_factory.mktemp("readme"))) >= 8


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"^make ([a-z-]+)", README, re.MULTILINE))
    assert {"demo", "test", "lint", "test-long", "help"} <= named
    assert named <= targets


def test_spec_schema_is_the_one_the_code_has() -> None:
    import json

    from streaminfer.spec import json_schema

    assert json.loads((ROOT / "docs" / "spec.schema.json").read_text()) == json_schema()


def test_model_table_names_every_model_and_its_defaults() -> None:
    from streaminfer.models import MODELS

    for kind, model in MODELS.items():
        row = next(line for line in README.splitlines() if line.startswith(f"| `{kind}` |"))
        for option in model.options.options:
            names = [option.name] if option.name != "prior" else [o.name for o in option.rule.options]  # type: ignore[attr-defined]
            for name in names:
                assert f"`{name}`" in row, (kind, name)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
