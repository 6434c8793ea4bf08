"""The log on standard error: as text or as one JSON object a line, with its level set by a signal at run time."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import FrameType, TracebackType
from typing import Any, Final

from streaminfer.bus.environment import SettingsError

VARIABLE: Final = "STREAMINFER_LOG"
LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)
EVENTS: Final = frozenset(
    {"joined", "assigned", "master of", "restored", "waiting", "fenced", "drift", "lost", "stopped"}
)
"""The changes of a service's state. Each is logged once when it happens."""
_EVENT: Final = "streaminfer_event"


def event(logger: logging.Logger, name: str, text: str, level: int = logging.INFO, **fields: Any) -> None:
    """Logs a change of state: one of EVENTS, a text for people, and fields for programs."""
    if name not in EVENTS:
        raise ValueError(f"{name!r} is not one of {sorted(EVENTS)}")
    logger.log(level, "%s", text, extra={_EVENT: {"event": name, **fields}})


def told_assigned(logger: logging.Logger, partitions: Iterable[object]) -> None:
    """That a member of a group has these partitions from now on."""
    owned = sorted(map(str, partitions))
    event(logger, "assigned", f"partitions now: {', '.join(owned) or 'none'}", partitions=owned)


class JsonFormatter(logging.Formatter):
    """One object a line. Everything that a terminal might act upon is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        said = {"time": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        found: dict[str, Any] = {**said, "pid": record.process, **getattr(record, _EVENT, {})}
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure(verbosity: int, environ: Mapping[str, str] = os.environ) -> None:
    """Sets up the log of this process; raises SettingsError if STREAMINFER_LOG is neither json nor text.

    As JSON it begins with the changes of state, as text with warnings: that is next to what commands print.
    """
    form = environ.get(VARIABLE) or "text"
    if form not in {"json", "text"}:
        raise SettingsError(f"{VARIABLE} must be json or text (got {form!r})")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(TEXT))
    first = 1 if form == "json" else 0
    logging.basicConfig(handlers=[handler], level=LEVELS[min(first + verbosity, len(LEVELS) - 1)])
    if form == "json":
        logging.captureWarnings(True)
        sys.excepthook = _uncaught
        threading.excepthook = lambda given: _uncaught(given.exc_type, given.exc_value, given.exc_traceback)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, _next_level)


def is_json() -> bool:
    """Whether standard error is to have nothing but JSON."""
    return any(isinstance(each.formatter, JsonFormatter) for each in logging.getLogger().handlers)


def complain(text: str) -> None:
    """A problem of a command, on standard error."""
    if is_json():
        logging.getLogger("streaminfer").error("%s", text)
    else:
        print(f"streaminfer: {text}", file=sys.stderr)


def _uncaught(kind: type[BaseException], error: BaseException | None, where: TracebackType | None) -> None:
    if kind is not None and not issubclass(kind, SystemExit):
        made = error if error is not None else kind()
        logging.getLogger("streaminfer").critical("%s: %s", kind.__name__, made, exc_info=(kind, made, where))


def _next_level(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (the handler's signature)
    """One level more, and after the last the first again."""
    root = logging.getLogger()
    level = LEVELS[(LEVELS.index(root.level) + 1) % len(LEVELS)] if root.level in LEVELS else LEVELS[0]
    root.setLevel(level)
    said = logging.LogRecord(
        __name__, logging.WARNING, __file__, 0, "the level of the log is now %s", (logging.getLevelName(level),), None
    )
    for handler in root.handlers:
        # Past its lock and its buffer: the signal may have come while a line was written.
        os.write(2, f"{handler.format(said)}\n".encode(errors="backslashreplace"))
