"""Runs the benchmark, compares its results, or plays a cluster: `python -m benchmarks run|compare|scale`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import report, scale
from benchmarks.cases import FULL, QUICK, Bench, cases
from benchmarks.measure import Figure, is_chosen, measured
from benchmarks.processes import ROOT, Failed

RESULTS = ROOT / "benchmarks" / "results"


@contextmanager
def broker() -> Iterator[tuple[str, int | None]]:
    """The Kafka of STREAMINFER_BUS, else a broker for the time of the benchmark, and its process."""
    given = os.environ.get("STREAMINFER_BUS", "")
    if given.startswith("kafka://"):
        yield given.removeprefix("kafka://"), None
        return
    from tests.brokers.local import local_broker

    tell("starting a Kafka broker")
    with local_broker() as made:
        yield made.address, made.pid


def run(options: argparse.Namespace) -> int:
    """One table on standard output, one document in benchmarks/results."""
    old = report.read(options.against) if options.against else None
    sizes = QUICK if options.quick else FULL
    titles: dict[str, str] = {}
    figures: list[Figure] = []
    failures: list[str] = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="streaminfer-bench-") as folder, broker() as (address, pid):
        for case in cases(Bench(Path(folder), sizes, address, pid)):
            if not is_chosen(case.letter, options.only):
                continue
            titles[case.letter] = case.title
            try:
                figures += measured(case, sizes.repetitions, tell)
            except (Failed, LookupError) as error:
                failures.append(f"{case.letter}: {error}")
    about = {"quick": options.quick, "load_before": load}
    document = report.document(figures, titles, commit(), about)
    path = kept(document)
    print(report.table(figures, titles))
    print(f"\n{sizes.repetitions} repetitions, load before {load:.1f}; kept as {path.relative_to(ROOT)}")
    if old is not None:
        print(f"\n{report.comparison(old, document)}")
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def compare(options: argparse.Namespace) -> int:
    print(report.comparison(report.read(options.old), report.read(options.new)))
    return 0


def scaled(options: argparse.Namespace) -> int:
    found = report.read(options.results)
    try:
        print(scale.told(report.figures_of(found), options.case, found["machine"]["cpus"]))
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def kept(document: dict[str, object]) -> Path:
    """Writes a document where others of its kind are."""
    RESULTS.mkdir(exist_ok=True)
    quick = "-quick" if document["quick"] else ""
    path = RESULTS / f"{datetime.now(UTC):%Y-%m-%d}-{document['commit']}{quick}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def commit() -> str:
    """The commit that is measured, marked where files differ from it."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(asked, text=True, capture_output=True, check=False)
    return done.stdout.strip() or "unknown"


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="measure everything")
    running.add_argument("--quick", action="store_true", help="less work and one repetition, a few minutes")
    running.add_argument("--only", default="", metavar="LETTERS", help="only these cases, such as ac or l3")
    running.add_argument("--against", type=Path, metavar="FILE", help="compare with these results")
    comparing = commands.add_parser("compare", help="compare two results")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    scaling = commands.add_parser("scale", help="what a cluster would do at the costs of some results")
    scaling.add_argument("results", type=Path)
    scaling.add_argument("--case", default="x1", help="the case that measured the costs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no process is left behind
    try:
        return {"run": run, "compare": compare, "scale": scaled}[options.command](options)
    except report.BadResults as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        return 1


if __name__ == "__main__":
    sys.exit(main())
