"""What one look has found."""

from __future__ import annotations

from typing import Literal, NamedTuple

State = Literal["good", "note", "wrong"]


class Finding(NamedTuple):
    """A line of the report. A `note` may be as it should: whether it is, only its reader knows."""

    check: str
    """What was looked at, such as `topics`."""
    state: State
    text: str
    remedy: str = ""
    """What to do; empty if nothing is to be done."""

    def to_json(self) -> dict[str, str]:
        return self._asdict()


def good(check: str, text: str) -> Finding:
    return Finding(check, "good", text)


def note(check: str, text: str, remedy: str = "") -> Finding:
    return Finding(check, "note", text, remedy)


def wrong(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, "wrong", text, remedy)
