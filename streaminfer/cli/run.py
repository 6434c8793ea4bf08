"""run one service in the foreground: what a pod runs"""

from __future__ import annotations

import argparse

from streaminfer.cli.common import UsageError, add_bus
from streaminfer.runtime.role import needed
from streaminfer.runtime.running import process
from streaminfer.runtime.running.health import parse_address
from streaminfer.services import ROLES, monitor
from streaminfer.spec import load_spec


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", metavar="SERVICE", choices=ROLES, help=f"one of: {', '.join(ROLES)}")
    parser.add_argument("spec", metavar="SPEC", nargs="+", help="the spec, a YAML file; several for monitor")
    add_bus(parser, serves=True)
    parser.add_argument(
        "--instance",
        metavar="NAME",
        help="a unique name that this process keeps over restarts: its successor takes over at once",
    )
    parser.add_argument(
        "--http", metavar="HOST:PORT", help="serve health and metrics at this address; the monitor serves the API too"
    )


def command(options: argparse.Namespace) -> int:
    if options.http:
        parse_address(options.http)
    spec, *also = [load_spec(each) for each in options.spec]
    if also and options.service != monitor.ROLE.name:
        raise UsageError(f"SPEC: must be one with {options.service}; only monitor takes several (got {len(also) + 1})")
    if len({each.name for each in (spec, *also)}) <= len(also):
        raise UsageError("SPEC: must have different names, as a name is the prefix of all topics")
    suits = [role.name for role in needed(ROLES, spec)]
    if options.service not in suits:
        fitting, method = f"{', '.join(suits[:-1])} or {suits[-1]}", spec.inference.method
        raise UsageError(f"SERVICE: must be {fitting} with the method {method} (got {options.service!r})")
    role = ROLES[options.service]
    if role.serves and options.http:
        from streaminfer.http import serving

        serving.run(role, spec, options.bus, options.instance, options.http, also)
    else:
        process.run(role, spec, options.bus, options.instance, options.http, also)
    return 0
