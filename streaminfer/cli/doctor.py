"""say what is wrong with the bus, the rights, the topics and the posterior, and what to do"""

from __future__ import annotations

import argparse

from streaminfer.bus.protocol import Bus
from streaminfer.cli.common import add_bus, add_json, add_spec, answering, print_json, reached
from streaminfer.cli.terminal import printable
from streaminfer.runtime.doctoring.finding import Finding
from streaminfer.runtime.doctoring.looking import findings
from streaminfer.services import ROLES
from streaminfer.spec import load_spec
from streaminfer.topics import declarations


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    users = sorted({name for each in declarations().values() for name in (*each.readers, *each.writers)})
    parser.add_argument("--role", metavar="SERVICE", choices=users, help="whether the user has all rights of this one")
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)

    def opening() -> Bus:
        found = reached(options, lambda: answering(options.bus, spec, make=False))
        assert found is not None  # noqa: S101 (nothing stops it)
        return found

    bad = False
    for finding in findings(spec, opening, ROLES, options.role):
        bad = bad or finding.state == "wrong"
        print_json(finding.to_json()) if options.json else print(_line(finding), flush=True)
    return 1 if bad else 0


def _line(finding: Finding) -> str:
    mark = {"good": "ok   ", "note": "note ", "wrong": "WRONG"}[finding.state]
    remedy = f". Remedy: {finding.remedy}" if finding.remedy else ""
    return printable(f"{mark}  {finding.check:<11}  {finding.text.rstrip('.')}{remedy}")
