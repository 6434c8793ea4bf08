"""Opening clients of kafka-python so that one that fails to connect leaves nothing behind and says why it failed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kafka import errors
from kafka.net.compat import KafkaNetClient

from streaminfer.bus.broker import sockets
from streaminfer.bus.broker.errors import TlsRefused
from streaminfer.bus.broker.fetching import batches
from streaminfer.bus.broker.settings import Login
from streaminfer.bus.environment import SettingsError

batches.install()
sockets.install()


def opened(make: Callable[..., Any], login: Login, **options: Any) -> Any:
    """A client made by `make`; its constructor connects, and does not clean up if it cannot."""
    made: list[Any] = []
    # The clients do not take these two, the network below them does; its own ten seconds are longer than a deadline.
    patience = options["request_timeout_ms"] // 2
    setup = {"socket_connection_setup_timeout_ms": patience, "socket_connection_setup_timeout_max_ms": patience}

    def network(**config: Any) -> Any:
        made.append(KafkaNetClient(**config, **setup))
        _give_up_when_refused(made[-1]._manager, len(options["bootstrap_servers"]), login)
        return made[-1]

    try:
        return make(kafka_client=network, **options)
    except BaseException:
        for client in made:
            with suppress(RuntimeError):  # of a thread that was not started yet, if a signal has ended it here
                client.close()
        raise


def _give_up_when_refused(manager: Any, servers: int, login: Login) -> None:
    """While it looks for a first server kafka-python only logs why a connection failed, tries again, and then tells of
    a timeout. Here as many refusals as there are servers end the search."""
    connect = manager.get_connection
    refusals: list[Exception] = []

    def noting(*arguments: Any, **options: Any) -> Any:
        if len(refusals) >= servers and not manager.bootstrapped:
            raise refusals[-1]
        connection = connect(*arguments, **options)
        if "connection_made" not in vars(connection):  # it is new
            _hear_out(connection)
            _note_refusals(connection, refusals, login)
        return connection

    manager.get_connection = noting


def _hear_out(connection: Any) -> None:
    """kafka-python throws away what it reads together with the end of a connection: why the broker hangs up."""
    made = connection.connection_made

    def connection_made(transport: Any) -> None:
        receive = transport._sock_recv

        def data_first() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error  # the end is still there when it reads again

        transport._sock_recv = data_first
        made(transport)

    connection.connection_made = connection_made


def _note_refusals(connection: Any, refusals: list[Exception], login: Login) -> None:
    log_in = connection._sasl_authenticate

    async def logging_in(*arguments: Any, **options: Any) -> Any:
        try:
            password = login.password()
            if password is not None:
                connection.config["sasl_plain_password"] = password
            return await log_in(*arguments, **options)
        except SettingsError as error:  # the file is being replaced, or has gone
            refusals.append(errors.KafkaConnectionError(str(error)))
            raise refusals[-1] from error
        except (errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError) as error:
            # The broker says no and hangs up: kafka-python may hear the second before it has understood the first.
            refusals.append(_passing(str(error)) if login.accepted else error)
            raise refusals[-1] from error

    def failed(error: Exception) -> None:
        if "[SSL" in str(error):  # it wraps the error of the ssl module, or keeps no more of it than the text
            refusals.append(_passing(str(error)) if login.accepted else TlsRefused(str(error)))

    def succeeded(_: Any) -> None:
        login.accepted = True

    connection._sasl_authenticate = logging_in
    connection.init_future.add_callback(succeeded)
    connection.init_future.add_errback(failed)


def _passing(text: str) -> Exception:
    """The error of a cluster that has taken the log-in or the certificate before: one of them is being changed."""
    made: Exception = errors.KafkaConnectionError(
        f"the broker refuses the log-in or the certificate, unlike before: {text}"
    )
    return made
