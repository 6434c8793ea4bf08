"""The README's commands are run and its outputs compared, in its order, in one directory.

In an expected output `...` stands for anything, also for any number of lines where it is alone on one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in BLOCK.findall(README)]


def commands(text: str) -> list[tuple[str, str]]:
    """(command, expected output) of a console block."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts]


def matches(expected: str, found: str) -> bool:
    pattern = re.escape(expected.strip()).replace(re.escape("..."), r"[\s\S]*?")
    return re.fullmatch(pattern + r"\s*", found.strip()) is not None


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Runs a command with bash where the README's reader would stand: its directory has docs/ and the command."""
    home = tmp_path_factory.mktemp("readme")
    (home / "docs").symlink_to(ROOT / "docs")
    (home / "bin").mkdir()
    script = home / "bin" / "streaminfer"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streaminfer "$@"\n')
    script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
    }
    environment.pop("STREAMINFER_BUS", None)

    def run(*arguments: str) -> str:
        done = subprocess.run(
            arguments,
            cwd=home,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        return done.stdout

    return run


@pytest.mark.xdist_group("processes")
def test_commands_and_outputs(shell: object) -> None:
    assert callable(shell)
    seen = 0
    code = ""
    for kind, text in blocks():
        if kind == "console":
            for command, expected in commands(text):
                found = shell("bash", "-c", command)
                assert matches(expected, found), f"$ {command}\n{found}"
                seen += 1
        elif kind == "python":
            code = text
        elif code:
            found = shell(sys.executable, "-c", code)
            assert matches(text, found), f"{code}\n{found}"
            code = ""
            seen += 1
    assert seen >= 8


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
