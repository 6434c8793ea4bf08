"""The command line: one file for each command, in an explicit table. Only the one that is asked for is loaded."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from streaminfer import __version__
from streaminfer.bus.connect import BusUrlError
from streaminfer.bus.environment import SettingsError
from streaminfer.bus.protocol import BusError
from streaminfer.cli.common import UsageError
from streaminfer.cli.terminal import harmless
from streaminfer.runtime import logs
from streaminfer.runtime.api.prediction import CannotPredict
from streaminfer.runtime.loading.files import FileError
from streaminfer.runtime.names import NotOurs
from streaminfer.runtime.running.health import AddressError
from streaminfer.runtime.service import Fatal, NotYet
from streaminfer.runtime.supervising.supervisor import GaveUp
from streaminfer.spec import SpecError
from streaminfer.wire.snapshots import OtherSpec

COMMANDS = (
    "up",
    "run",
    "produce",
    "snapshot",
    "subscribe",
    "draws",
    "combine",
    "predict",
    "verdict",
    "report",
    "topics",
    "acls",
    "validate",
    "dead-letters",
    "repair",
    "backup",
    "restore",
    "rebuild",
    "doctor",
    "demo",
)
BAD_USAGE = (UsageError, SpecError, BusUrlError, AddressError, NotOurs, SettingsError, CannotPredict)
FAILED = (FileError, BusError, Fatal, NotYet, GaveUp, OtherSpec, OSError)


def main(arguments: Sequence[str]) -> int:
    """Runs a command; 0 done, 1 failed, 2 bad usage or bad spec. `verdict` has two more."""
    with harmless():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    options = parser_of(_asked(arguments)).parse_args(arguments)
    try:
        logs.configure(options.verbose)
        return int(_module(options.command).command(options))
    except BAD_USAGE as error:
        _complain(error)
        return 2
    except BrokenPipeError:
        # The reader of our output has gone; close it so that the interpreter does not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except FAILED as error:
        _complain(error)
        return 1
    except KeyboardInterrupt:
        return 1


def _complain(error: Exception) -> None:
    """On standard error, each line with the program's name: a spec may have several problems."""
    for line in str(error).split("\n"):
        logs.complain(line)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"streaminfer.cli.{name.replace('-', '_')}")


def _asked(arguments: Sequence[str]) -> Sequence[str]:
    """The command that arguments begin with; all of them if it is none, to be listed."""
    first = next((each for each in arguments if not each.startswith("-")), None)
    return (first,) if first in COMMANDS else COMMANDS


def parser_of(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """A parser of some commands: a service starts in half the time if it does not load the others."""
    parser = argparse.ArgumentParser(
        prog="streaminfer",
        description="Continuously updated Bayesian posteriors from event streams.",
        epilog="Every command lists its options with --help.",
    )
    parser.add_argument("--version", action="version", version=f"streaminfer {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        module = _module(name)
        summary = (module.__doc__ or "").strip().splitlines()[0]
        sub = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.add_argument("-v", "--verbose", action="count", default=0, help="more messages; twice for all of them")
        module.arguments(sub)
    return parser
