"""print the rights on a Kafka cluster that each program of a spec needs

They are for STREAMINFER_TOPICS=expect: services then make no topics, and `topics --apply` is run once by a user of its
own. Nothing is asked of the cluster; --bus is only read for its namespace.
"""

from __future__ import annotations

import argparse
from typing import Any

from streaminfer.bus.connect import public_names
from streaminfer.cli.common import add_bus, add_json, add_spec, print_json, print_table
from streaminfer.runtime.rights import Grant, rights
from streaminfer.services import ROLES
from streaminfer.spec import load_spec


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    add_bus(parser, serves=True)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    found = rights(load_spec(options.spec), ROLES, public_names(options.bus))
    if options.json:
        print_json([document(each) for each in found])
    else:
        rows = [[x.role, x.resource.type, x.resource.name, x.resource.pattern, ", ".join(x.operations)] for x in found]
        print_table(["role", "resource", "name", "pattern", "operations"], rows)
    return 0


def document(grant: Grant) -> dict[str, Any]:
    """A grant as JSON: a resource without a principal, and what may be done with it."""
    kind = grant.resource
    resource = {"type": kind.type, "name": kind.name, "pattern": kind.pattern}
    return {"role": grant.role, "resource": resource, "operations": list(grant.operations)}
