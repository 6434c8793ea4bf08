"""A bus from its URL: the one place that knows which implementations there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.environment import SettingsError
from streaminfer.bus.protocol import Bus, BusError


class BusUrlError(ValueError):
    """A bus URL that names no bus."""


def _embedded(url: str, rest: str, make: bool) -> Bus:
    if not rest:
        raise BusUrlError(
            f"bus URL {url!r}: embedded needs a directory after the colon, such as embedded:./.streaminfer"
        )
    if rest.startswith("//"):
        raise BusUrlError(
            f"bus URL {url!r}: embedded is followed by a path, not by slashes and a host: write "
            f"embedded:{rest.removeprefix('//')}"
        )
    directory = Path(rest).expanduser()
    if not make and not directory.is_dir():
        raise BusError(f"no bus exists in {directory}: `up` or `produce` creates one; is --bus correct?")
    return EmbeddedBus(directory)


def _kafka(url: str, rest: str, make: bool) -> Bus:  # noqa: ARG001 (a cluster is there or it is not)
    # Here, so that commands on other buses do not wait for the client to be loaded.
    from streaminfer.bus.broker.settings import parse_address, settings_from
    from streaminfer.bus.kafka import KafkaBus

    try:
        address = parse_address(rest)
    except SettingsError as error:
        raise BusUrlError(f"bus URL {url!r}: {error}") from error
    try:
        return KafkaBus(address, settings_from())
    except SettingsError as error:
        raise BusUrlError(f"bus {url}: {error}") from error


def _file(url: str, rest: str, make: bool) -> Bus:  # noqa: ARG001 (a file is never made here)
    if not rest:
        raise BusUrlError(
            f"bus URL {url!r}: file needs a path after the colon, such as file:posteriors/prices.snapshot"
        )
    from streaminfer.bus.recorded.bus import RecordedBus

    try:
        return RecordedBus.of_file(Path(rest).expanduser())
    except OSError as error:
        raise BusError(f"{url}: the file cannot be read: {error.strerror or error}") from error


SCHEMES: dict[str, Callable[[str, str, bool], Bus]] = {
    "embedded": _embedded,
    "file": _file,
    "kafka": _kafka,
}


def open_bus(url: str, make: bool = True) -> Bus:
    """Opens the bus at `SCHEME:REST`; raises BusUrlError for a URL that names none.

    `make=False` is for readers: an embedded bus that does not exist is then an error.
    """
    _refuse_credentials(url)
    scheme, colon, rest = url.partition(":")
    if not colon or scheme not in SCHEMES:
        known = ", ".join(sorted(SCHEMES))
        raise BusUrlError(
            f"bus URL {url!r}: it must start with a known scheme and a colon ({known}); "
            "for a bus in a directory of this machine write embedded:PATH"
        )
    return SCHEMES[scheme](url, rest, make)


def _refuse_credentials(url: str) -> None:
    """A URL is shown in errors, logs and lists of processes. Paths of an embedded bus may have such a character."""
    if "@" in url and not url.startswith("embedded:"):
        raise BusUrlError(
            "bus URL: must not have a user or password (something stands before @): use STREAMINFER_KAFKA_USERNAME and "
            "STREAMINFER_KAFKA_PASSWORD_FILE"
        )


def shown(url: str) -> str:
    """A URL for a text, without what should not have been in it."""
    try:
        _refuse_credentials(url)
    except BusUrlError:
        return "a URL with a user or password, which is refused"
    return url


def public_names(url: str) -> Callable[[str], str]:
    """What names of a bus are called on its cluster, by its URL alone: a Kafka bus may have a namespace."""
    _refuse_credentials(url)
    scheme, _, rest = url.partition(":")
    if scheme != "kafka":
        return lambda name: name
    from streaminfer.bus.broker.names import Names
    from streaminfer.bus.broker.settings import parse_address

    try:
        return Names(parse_address(rest).namespace).outside
    except SettingsError as error:
        raise BusUrlError(f"bus URL {url!r}: {error}") from error


def default_url(environ: Mapping[str, str] = os.environ) -> str:
    """The bus if none is named: STREAMINFER_BUS, else one in the current directory."""
    return environ.get("STREAMINFER_BUS") or "embedded:./.streaminfer"
