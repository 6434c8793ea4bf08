"""list the events that could not be absorbed, with reasons, and with --retry send them again"""

from __future__ import annotations

import argparse
import sys

from streaminfer.cli.common import UsageError, add_bus, add_json, add_spec, bus_of, print_json, print_table, whole
from streaminfer.cli.terminal import StatusLine, bar, printable
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.dead_letters.documents import base64_of, document, text_of
from streaminfer.spec import Spec, load_spec
from streaminfer.wire.dead_letters import DeadLetter

REASON = 120
"""Characters of a reason in a table; --json has all of it."""
PREVIEW = 40
"""Characters of a value."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--retry", action="store_true", help="send their events to the data topic again")
    parser.add_argument("--summary", action="store_true", help="one line for each reason, the most common first")
    parser.add_argument(
        "--limit", metavar="N", type=whole(1, 10**9), help="list only the first N; with --retry, send only these again"
    )
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    if options.retry:
        if options.summary and options.limit is not None:
            raise UsageError("--limit: with --summary it counts reasons, but --retry sends dead letters: leave one out")
        _check_retry(spec)
    with bus_of(options, spec, make=False) as bus:
        found = store.pending(spec, bus)
        if options.summary:
            _print_summary(found, options.limit, options.json)
        else:
            total, found = len(found), found[: options.limit]
            _print(found, options.json)
            _tell_rest(len(found), total, "dead letters")
        if options.retry:
            line, sent = StatusLine(), 0
            for count in store.retry(spec, bus, found):
                sent += count
                line.show(f"{bar(sent / len(found))} {sent:,} sent again")
            cut = sum(letter.is_cut for letter in found)
            kept = "1 holds only a part of its record and was not sent"
            kept = kept if cut == 1 else f"{cut:,} hold only a part of their record and were not sent"
            rest = f"; {kept}" if cut else ""
            print(f"{sent} of {len(found)} sent again{rest}", file=sys.stderr)
    return 0


def _check_retry(spec: Spec) -> None:
    try:
        names.own_data_topic(spec)
    except names.NotOurs as error:
        remedy = "`dead-letters --json` has the bytes of each in value_base64: the owner can send them again"
        raise names.NotOurs(f"{error}. {remedy}") from error


def _tell_rest(listed: int, total: int, what: str) -> None:
    if listed < total:
        print(f"the first {listed:,} of {total:,} {what} (--limit)", file=sys.stderr)


def _print_summary(found: list[DeadLetter], limit: int | None, as_json: bool) -> None:
    """A line for each reason, with a value that had it."""
    tally = store.counted(found).reasons()
    listed = tally[:limit]
    if as_json:
        for each in listed:
            example = None if each.example is None else text_of(each.example)
            print_json({"count": each.count, "reason": each.reason, "example": example,
                        "example_base64": base64_of(each.example)})  # fmt: skip
    elif not found:
        print("no dead letters")
    else:
        rows = [[f"{each.count:,}", _cut(each.reason, REASON), _preview(each.example)] for each in listed]
        print_table(["count", "reason", "example"], rows)
    _tell_rest(len(listed), len(tally), "reasons")


def _print(found: list[DeadLetter], as_json: bool) -> None:
    if as_json:
        for letter in found:
            print_json(document(letter))
    elif not found:
        print("no dead letters")
    else:
        rows = [[f"{x.topic}-{x.partition}", str(x.offset), _cut(x.reason, REASON), _preview(x.value)] for x in found]
        print_table(["source", "offset", "reason", "value"], rows)


def _cut(text: str, most: int) -> str:
    text = printable(text)
    return text if len(text) <= most else text[: most - 3] + "..."


def _preview(value: bytes | None) -> str:
    return "(tombstone)" if value is None else _cut(value[: 4 * PREVIEW].decode(errors="backslashreplace"), PREVIEW)
