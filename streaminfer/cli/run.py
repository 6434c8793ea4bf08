"""run one service in the foreground: what a pod runs"""

from __future__ import annotations

import argparse

from streaminfer.cli.common import UsageError, add_bus, add_spec
from streaminfer.runtime import names, process
from streaminfer.runtime.health import parse_address
from streaminfer.services import SERVICES
from streaminfer.spec import load_spec


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", metavar="SERVICE", choices=SERVICES, help=f"one of: {', '.join(SERVICES)}")
    add_spec(parser)
    add_bus(parser, serves=True)
    parser.add_argument(
        "--instance",
        metavar="NAME",
        help="a name that this process keeps over restarts, unlike any other's: its successor takes over at once",
    )
    parser.add_argument("--http", metavar="HOST:PORT", help="serve /healthz, /readyz and /metrics there")


def command(options: argparse.Namespace) -> int:
    if options.http:
        parse_address(options.http)
    spec = load_spec(options.spec)
    needed = names.worker_service(spec)
    if options.service not in {needed, "master"}:
        raise UsageError(
            f"SERVICE: must be {needed} or master with the method {spec.inference.method} (got {options.service!r})"
        )
    process.run(SERVICES[options.service], spec, options.bus, options.instance, options.http)
    return 0
