"""check a spec and show it with all defaults filled in

What a spec may say and you may not want is a warning on standard error. With --schema it prints the spec format as a
JSON Schema, for editors.
"""

from __future__ import annotations

import argparse
import json

import yaml

from streaminfer.cli.common import add_json, print_json, warn
from streaminfer.spec import json_schema, load_spec


def arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("spec", metavar="SPEC", nargs="?", help="the spec, a YAML file")
    which.add_argument("--schema", action="store_true", help="print the JSON Schema of specs instead")
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    if options.schema:
        print_json(json_schema()) if options.json else print(json.dumps(json_schema(), indent=2))
        return 0
    spec = load_spec(options.spec)
    warn(spec, options.spec)
    if options.json:
        print_json({"fingerprint": spec.fingerprint, "spec": spec.document})
    else:
        print(f"# fingerprint {spec.fingerprint}")
        print(yaml.safe_dump(dict(spec.document), sort_keys=False, default_flow_style=None, width=1000), end="")
    return 0
