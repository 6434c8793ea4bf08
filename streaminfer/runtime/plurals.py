"""How many of a thing there are, as people say it."""

from __future__ import annotations


def counted(n: int, one: str, many: str | None = None, width: int = 0) -> str:
    """Such as "1 event" or "1,000 events"; `many` if the plural takes more than an s, `width` is that of the number."""
    return f"{n:>{width},} {one if n == 1 else many or one + 's'}"
