"""say whether a posterior can be trusted now, and why

It reads what is on the bus and measures nothing itself. It ends with 0 if the posterior is trusted, with 3 if it is to
be watched, and with 4 if it is not to be trusted.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from streaminfer.cli.common import add_bus, add_json, add_spec, bus_of, print_json
from streaminfer.measuring.judging.verdict import ANSWERS, Answer, Reason
from streaminfer.runtime.monitoring import once
from streaminfer.runtime.monitoring.once import Read
from streaminfer.spec import Spec, load_spec

CODES: Final[dict[Answer, int]] = dict(zip(ANSWERS, (0, 3, 4), strict=True))
"""Exit codes; 1 and 2 are errors."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    with bus_of(options, spec, make=False) as bus:
        found = once.read(spec, bus, round(time.time() * 1000))
    if options.json:
        print_json(document(spec, found))
    else:
        print_reasons(spec, found)
    return CODES[found.verdict.verdict]


def document(spec: Spec, found: Read) -> dict[str, Any]:
    """The verdict as JSON."""
    return {
        "name": spec.name,
        "verdict": found.verdict.verdict,
        "version": found.state.version,
        "n_events": found.state.n_events,
        "reasons": [reason._asdict() for reason in found.verdict.reasons],
    }


def print_reasons(spec: Spec, found: Read) -> None:
    """The answer to each question, the reasons for it, and what to do."""
    print(f"{spec.name}: {found.verdict.verdict.replace('_', ' ')}")
    before = ""
    for reason in found.verdict.reasons:
        question = _asked(reason)
        print(f"{question if question != before else '':16}{reason.status:9}{reason.sentence}")
        if reason.remedy:
            print(f"{'':25}{reason.remedy}")
        before = question


def _asked(reason: Reason) -> str:
    return f"{reason.question.replace('_', ' ')}?"
