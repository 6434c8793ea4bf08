"""An editable install, from the folder above a clone that has the name of the package."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from streaminfer.cli import parser_of
from tests.brokers.__main__ import advice

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_editable(sys.argv[1])"
IMPORT = "import site, sys; site.addsitedir(sys.argv[1]); import streaminfer; print(streaminfer.__version__)"


def test_a_clone_does_not_hide_the_package_from_the_folder_above(tmp_path: Path) -> None:
    clone, wheels, site = tmp_path / "streaminfer", tmp_path / "wheels", tmp_path / "site"
    wheels.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("streaminfer", "services", "topics"):
        shutil.copytree(ROOT / name, clone / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    built = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD, str(wheels)],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # Without the site of this environment, which may have the package too.
    found = subprocess.run(
        [sys.executable, "-S", "-c", IMPORT, str(site)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (found.stdout, found.returncode) == ("0.1.0\n", 0), found.stderr


def test_extras_are_those_of_the_package_and_installed_from_the_repository() -> None:
    readme = (ROOT / "README.md").read_text()
    sources = [readme, *(path.read_text() for path in (ROOT / "streaminfer").rglob("*.py"))]
    named = [extra for text in sources for each in re.findall(r"'\.\[([a-z,]+)\]'", text) for extra in each.split(",")]
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"fast", "parquet", "arviz"} <= set(named) <= set(known)
    assert not [text for text in sources if "streaminfer[" in text], "it is not on PyPI"


def test_what_a_broker_to_try_things_on_advises_can_be_done() -> None:
    lines = [line.strip() for line in advice("localhost:9092").splitlines()]
    assert "export STREAMINFER_BUS=kafka://localhost:9092" in lines
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("streaminfer ")]
    assert [command[0] for command in commands] == ["topics", "up", "snapshot"]
    for command in commands:
        options = parser_of().parse_args(command)
        assert (ROOT / options.spec).exists()
