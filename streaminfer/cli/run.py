"""run one service in the foreground: what a pod runs"""

from __future__ import annotations

import argparse

from streaminfer.cli.common import UsageError, add_bus, add_spec
from streaminfer.runtime import process
from streaminfer.runtime.health import parse_address
from streaminfer.runtime.role import needed
from streaminfer.services import ROLES
from streaminfer.spec import load_spec


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", metavar="SERVICE", choices=ROLES, help=f"one of: {', '.join(ROLES)}")
    add_spec(parser)
    add_bus(parser, serves=True)
    parser.add_argument(
        "--instance",
        metavar="NAME",
        help="a unique name that this process keeps over restarts: its successor takes over at once",
    )
    parser.add_argument("--http", metavar="HOST:PORT", help="serve /healthz, /readyz and /metrics at this address")


def command(options: argparse.Namespace) -> int:
    if options.http:
        parse_address(options.http)
    spec = load_spec(options.spec)
    suits = [role.name for role in needed(ROLES, spec)]
    if options.service not in suits:
        raise UsageError(
            f"SERVICE: must be {' or '.join(suits)} with the method {spec.inference.method} (got {options.service!r})"
        )
    process.run(ROLES[options.service].build, spec, options.bus, options.instance, options.http)
    return 0
