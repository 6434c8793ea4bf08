"""A foreign producer that opens a transaction and never ends it.

`python -m tests.faults.hanging ADDRESS ID SECONDS TOPIC PARTITION VALUE` says `open` when the record is on the log, and
waits to be killed.
"""

from __future__ import annotations

import signal
import sys

from kafka import KafkaProducer

from tests.faults.programs import Program, Programs, wait_for


def hang(programs: Programs, address: str, name: str, seconds: float, topic: str, value: str) -> Program:
    """Starts it on partition 0 of a topic, and waits until its transaction is open."""
    program = programs.start(address, name, seconds, topic, 0, value, module="tests.faults.hanging")

    def is_open() -> bool:
        assert program.alive, program.err
        return program.out == "open\n"

    wait_for(is_open, "a foreign transaction is open")
    return program


def main(address: str, name: str, seconds: str, topic: str, partition: str, value: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=address,
        transactional_id=name,
        transaction_timeout_ms=int(1000 * float(seconds)),
        enable_idempotence=True,
        acks="all",
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, value=value.encode(), key=b"foreign", partition=int(partition)).get(20)
    print("open", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
