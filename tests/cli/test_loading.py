"""What a command loads: every process that starts pays for all that is imported."""

from __future__ import annotations

import json
import subprocess
import sys

from streaminfer.cli import COMMANDS

AFTER_HELP = """
import json, sys
from streaminfer.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def loaded(*arguments: str) -> tuple[str, set[str]]:
    """What is printed, and the modules that there are afterwards."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", AFTER_HELP, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout, set(json.loads(done.stderr))


def test_a_service_loads_neither_other_commands_nor_other_services_nor_scipy() -> None:
    _, found = loaded("run", "svb-worker", "--help")
    others = {f"streaminfer.cli.{name.replace('-', '_')}" for name in COMMANDS if name != "run"}
    services = {"streaminfer.runtime.sampling.sampler", "streaminfer.runtime.pooling.master"}
    assert "streaminfer.cli.run" in found
    assert not found & (
        {"scipy", "scipy.special", "jax", "pandas", "pyarrow", "streaminfer.combining"} | others | services
    )


def test_help_lists_all_commands() -> None:
    told, found = loaded("--help")
    assert [line.split()[0] for line in told.splitlines() if line.startswith("    ") and line[4] != " "] == list(
        COMMANDS
    )
    assert "streaminfer.cli.combine" in found
