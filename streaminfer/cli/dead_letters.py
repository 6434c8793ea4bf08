"""list the events that could not be absorbed, with reasons, and with --retry send them again"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import islice

from streaminfer.bus.protocol import Bus
from streaminfer.cli.common import (
    LongTable,
    UsageError,
    add_bus,
    add_json,
    add_spec,
    bus_of,
    print_json,
    print_table,
    whole,
)  # fmt: skip
from streaminfer.cli.terminal import StatusLine, bar, printable
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.dead_letters.documents import base64_of, document, text_of
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.spec import Spec, load_spec
from streaminfer.wire.dead_letters import DeadLetter

REASON = 120
"""Characters of a reason in a table; --json has all of it."""
PREVIEW = 40
"""Characters of a value."""
PORTION = 200
"""Dead letters that are in memory at once."""


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
    with bus_of(options, spec, make=False) as bus, Pending(spec, bus) as found:
        if options.summary:
            _print_summary(found, options.limit, options.json)
        else:
            _print(islice(found, options.limit), options.json)
            _tell_rest(min(len(found), options.limit or len(found)), len(found), "dead letters")
        if options.retry:
            _retry(spec, bus, found, options.limit)
    return 0


def _retry(spec: Spec, bus: Bus, found: Pending, limit: int | None) -> None:
    line, sent, cut, total = StatusLine(), 0, 0, min(len(found), limit or len(found))

    def whole_ones() -> Iterator[DeadLetter]:
        nonlocal cut
        for letter in islice(found, limit):
            cut += letter.is_cut
            yield letter

    for count in store.retry(spec, bus, whole_ones()):
        sent += count
        line.show(f"{bar(sent / total)} {sent:,} sent again")
    kept = "1 holds only a part of its record and was not sent"
    kept = kept if cut == 1 else f"{cut:,} hold only a part of their record and were not sent"
    rest = f"; {kept}" if cut else ""
    print(f"{sent} of {total} sent again{rest}", file=sys.stderr)


def _check_retry(spec: Spec) -> None:
    try:
        names.own_data_topic(spec)
    except names.NotOurs as error:
        remedy = "`dead-letters --json` has the bytes of each in value_base64: the owner can send them again"
        raise names.NotOurs(f"{error}. {remedy}") from error


def _tell_rest(listed: int, total: int, what: str) -> None:
    if listed < total:
        print(f"the first {listed:,} of {total:,} {what} (--limit)", file=sys.stderr)


def _print_summary(found: Iterable[DeadLetter], limit: int | None, as_json: bool) -> None:
    """A line for each reason, with a value that had it."""
    tally = store.counted(found).reasons()
    listed = tally[:limit]
    if as_json:
        for each in listed:
            example = None if each.example is None else text_of(each.example)
            print_json({"count": each.count, "reason": each.reason, "example": example,
                        "example_base64": base64_of(each.example)})  # fmt: skip
    elif not tally:
        print("no dead letters")
    else:
        rows = [[f"{each.count:,}", _cut(each.reason, REASON), _preview(each.example)] for each in listed]
        print_table(["count", "reason", "example"], rows)
    _tell_rest(len(listed), len(tally), "reasons")


def _print(found: Iterator[DeadLetter], as_json: bool) -> None:
    """In portions: there may be any number of them."""
    if as_json:
        for letter in found:
            print_json(document(letter))
        return
    table, portion = LongTable(["source", "offset", "reason", "value"]), list(islice(found, PORTION))
    if not portion:
        print("no dead letters")
    while portion:
        table.add([
            [f"{x.topic}-{x.partition}", str(x.offset), _cut(x.reason, REASON), _preview(x.value)] for x in portion
        ])  # fmt: skip
        portion = list(islice(found, PORTION))


def _cut(text: str, most: int) -> str:
    text = printable(text)
    return text if len(text) <= most else text[: most - 3] + "..."


def _preview(value: bytes | None) -> str:
    return "(tombstone)" if value is None else _cut(value[: 4 * PREVIEW].decode(errors="backslashreplace"), PREVIEW)
