"""Settings and secrets from the environment or from files that it names, never from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class SettingsError(ValueError):
    """An address or a variable of the environment that cannot be used."""


def secret(environ: Mapping[str, str], variable: str) -> str | None:
    """From the variable, or from the file that VARIABLE_FILE names; None if neither is set."""
    value, path = environ.get(variable), environ.get(f"{variable}_FILE")
    if value is not None and path is not None:
        raise SettingsError(f"{variable} and {variable}_FILE are both set: choose one")
    return value if path is None else text_of(path, f"{variable}_FILE")


def text_of(path: str, variable: str) -> str:
    """What a file holds that a variable names, without the blanks around it; it must not be empty."""
    try:
        text = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{variable} is {path!r}, which cannot be read: {error}") from error
    if not text:
        raise SettingsError(f"{variable} is {path!r}, which is empty")
    return text


def file_named(environ: Mapping[str, str], variable: str) -> str | None:
    """The path in a variable, which must be that of a file; None if it is not set."""
    path = environ.get(variable)
    if path and not Path(path).is_file():
        raise SettingsError(f"{variable} is {path!r}, which is not a file")
    return path or None
