"""Kafka brokers for users and test runs: `python -m tests.brokers serve|demo|keep`."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.brokers.jars import NoBroker
from tests.brokers.local import local_broker
from tests.brokers.sharing import keep


def advice(address: str) -> str:
    """What to do with a broker."""
    return (
        f"a Kafka broker is at {address}; in another terminal:\n\n"
        f"  export STREAMINFER_BUS=kafka://{address}\n"
        "  source .venv/bin/activate\n"
        "  streaminfer topics docs/examples/prices.yaml --apply    # makes the topics of a spec\n"
        "  streaminfer up docs/examples/prices.yaml --data docs/examples/prices.csv --until-idle\n"
        "  streaminfer snapshot docs/examples/prices.yaml\n\n"
        "or watch the demo there: make demo BUS=kafka\n\n"
        "Ctrl-C ends it and removes its data."
    )


def serve(port: int) -> int:
    """A broker in the foreground, until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            sys.exit(f"port {port} is taken, perhaps by a broker that runs already: use it, or `make kafka PORT=...`")
    print("starting a Kafka broker (the first time its jars are fetched, too) ...", flush=True)
    try:
        with local_broker(port=port) as broker:
            print(advice(broker.address), flush=True)
            signal.pause()
    except KeyboardInterrupt:
        print("\nended")
    return 0


def demo(arguments: list[str]) -> int:
    """`streaminfer demo` on the Kafka of STREAMINFER_BUS, else on a broker for the time of the demo."""
    url = os.environ.get("STREAMINFER_BUS", "")
    if url.startswith("kafka:"):
        return _demo(url, arguments)
    print("starting a Kafka broker for the demo (the first time its jars are fetched, too) ...", flush=True)
    with local_broker() as broker:
        return _demo(f"kafka://{broker.address}", arguments)


def _demo(url: str, arguments: list[str]) -> int:
    command = [sys.executable, "-m", "streaminfer", "demo", "--bus", url, *arguments]
    return subprocess.run(command, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.brokers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve", help="a broker in the foreground, for trials")
    serving.add_argument("--port", type=int, default=9092)
    commands.add_parser("demo", help="the demo on Kafka; takes the arguments of `streaminfer demo`")
    commands.add_parser("keep", help="a broker for a test run").add_argument("folder", type=Path)
    options, rest = parser.parse_known_args()
    try:
        if options.command == "serve":
            return serve(options.port)
        if options.command == "demo":
            return demo(rest)
        keep(options.folder)
    except NoBroker as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
