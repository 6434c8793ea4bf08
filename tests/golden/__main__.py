"""Golden buses: `make` writes the data anew, `play` continues what is there and says what came of it.

`play` is what the tests run, in a process of its own. How sums are rounded depends on the processor, unless numpy, BLAS
and numba are told before they are loaded to use nothing that only some processors have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

PORTABLE = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NUMBA_DISABLE_JIT": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> None:
    """This module in a process with portable arithmetic, in which the examples of own models are found."""
    paths = [str(ROOT), str(ROOT / "docs" / "examples" / "own_model")]
    environment = {**os.environ, **PORTABLE, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-m", "tests.golden", *arguments], cwd=ROOT, env=environment, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("command", choices=["make", "play"])
    parser.add_argument("kinds", nargs="*", help="all if none is named")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker; without it the embedded bus is meant")
    parser.add_argument("--to", type=Path, help="play: where the answer goes")
    parsed = parser.parse_intermixed_args()
    if any(os.environ.get(name) != value for name, value in PORTABLE.items()):
        run(*sys.argv[1:])
    elif parsed.command == "make":
        make(parsed.kinds, parsed.kafka)
    else:
        parsed.to.write_text(json.dumps(play(parsed.kinds, parsed.kafka)))


def make(kinds: list[str], address: str | None) -> None:
    from tests.golden import records
    from tests.golden.kinds import stories

    buses = _buses(address)
    for kind, made_up in stories().items():
        if kind not in (kinds or [kind]):
            continue
        folder = records.FOLDER / kind
        bus, expected = folder / f"{buses.name}.bus.xz", folder / f"{buses.name}.continued.xz"
        if bus.exists():
            sys.exit(f"{bus} exists: golden data is never made anew to make a test pass. See tests/golden/README.md.")
        if not (folder / "story.xz").exists():
            records.save_story(folder / "story.xz", made_up)
        story = records.load_story(folder / "story.xz")
        written = buses.made(story, bus)
        if written != buses.held(story, bus):
            sys.exit(f"{kind}: the bus was compacted while it was written: make its story shorter")
        continued = buses.continued(story, bus)
        records.save_lines(expected, continued)
        sys.stdout.write(f"{kind}: {len(written)} records written, {len(continued)} when continued\n")
        sys.stdout.flush()


def play(kinds: list[str], address: str | None) -> dict[str, Any]:
    """By kind: what services write from nothing, and on the golden bus; or the fault."""
    from tests.golden import records

    found: dict[str, Any] = {}
    buses = _buses(address)
    for kind in kinds or records.kinds():
        folder = records.FOLDER / kind
        story = records.load_story(folder / "story.xz")
        try:
            continued = buses.continued(story, folder / f"{buses.name}.bus.xz")
            found[kind] = {"continued": continued}
            if address is None:  # on Kafka it would take long, and say the same
                found[kind]["made"] = buses.made(story, None)
        except Exception:
            found[kind] = {"fault": traceback.format_exc()}
    return found


def _buses(address: str | None) -> Any:
    from tests.golden.buses import Embedded, Kafka

    return Embedded() if address is None else Kafka(address)


if __name__ == "__main__":
    main()
