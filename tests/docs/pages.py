"""Pages of documentation whose commands are run and whose outputs are compared, in their order, in one directory.

In an expected output `...` stands for anything. Alone on a line it stands for any number of lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text() for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Shell = Callable[..., str]


def commands(text: str) -> list[tuple[str, str]]:
    """(command, expected output) of a console block."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts]


def matches(expected: str, found: str) -> bool:
    pattern = re.escape(expected.strip()).replace(re.escape("..."), r"[\s\S]*?")
    return re.fullmatch(pattern + r"\s*", found.strip()) is not None


def shell_in(home: Path, *packages: Path) -> Shell:
    """Runs a command where a page's reader would stand: the directory has docs/ and the command.

    Python finds `packages` as if they were installed.
    """
    (home / "docs").symlink_to(ROOT / "docs")
    (home / "bin").mkdir()
    script = home / "bin" / "streaminfer"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streaminfer "$@"\n')
    script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *packages])),
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


def play(page: str, shell: Shell) -> int:
    """Runs all commands and Python blocks of a page; how many there were. The block after Python is its output."""
    seen = 0
    code = ""
    for kind, text in BLOCK.findall(page):
        if code:
            assert not kind, f"a Python block must be followed by its output, which has no language:\n{code}"
            found = shell(sys.executable, "-c", code)
            assert matches(text, found), f"{code}\n{found}"
            code = ""
            seen += 1
        elif kind == "python":
            code = text
        elif kind == "console":
            for command, expected in commands(text):
                found = shell("bash", "-c", command)
                assert matches(expected, found), f"$ {command}\n{found}"
                seen += 1
    assert not code, f"a Python block must be followed by its output:\n{code}"
    return seen
