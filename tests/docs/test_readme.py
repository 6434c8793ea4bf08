"""The README is short, and the tables of models and commands are complete."""

from __future__ import annotations

import json

from streaminfer.cli import parser_of
from streaminfer.models import MODELS
from streaminfer.spec import json_schema
from tests.docs.pages import PAGES, ROOT

README, TABLE = PAGES["README.md"], PAGES["docs/models.md"]


def test_it_is_short() -> None:
    assert len(README.encode()) <= 10_000


def test_it_names_every_command_and_every_model() -> None:
    (commands,) = (action.choices for action in parser_of()._actions if isinstance(action.choices, dict))
    rows = [line for line in README.splitlines() if line.startswith("| `")]
    for name in commands:
        assert any(row.startswith((f"| `{name} ", f"| `{name}` ")) for row in rows), name
    for kind in MODELS:
        assert any(f"`{kind}`" in row for row in rows), kind


def test_model_table_names_every_model_and_its_defaults() -> None:
    for kind, model in MODELS.items():
        row = next(line for line in TABLE.splitlines() if line.startswith(f"| `{kind}` |"))
        for option in model.options.options:
            names = [option.name] if option.name != "prior" else [o.name for o in option.rule.options]  # type: ignore[attr-defined]
            for name in names:
                assert f"`{name}`" in row, (kind, name)


def test_spec_schema_is_the_one_the_code_has() -> None:
    assert json.loads((ROOT / "docs" / "spec.schema.json").read_text()) == json_schema()
