"""What the processes of test_bus_processes.py do: `python -m tests.contracts.bus_process VERB URL ...`."""

from __future__ import annotations

import json
import sys
from itertools import count

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output, Partition, Position

BATCH = 20


def append(url: str, topic: str, name: str, batches: int) -> None:
    """Publishes numbered records and prints, for each, its number, partition and offset."""
    with open_bus(url) as bus:
        partitions = len(bus.ends(topic))
        for batch in range(batches):
            sent = [
                Output(topic, f"{name} {number}".encode(), partition=number % partitions)
                for number in range(batch * 25, (batch + 1) * 25)
            ]
            offsets = bus.publish(sent)
            rows = [(str(o.value, "utf8"), o.partition, at) for o, at in zip(sent, offsets, strict=True)]
            print(json.dumps(rows), flush=True)


def commit(url: str, topic: str, first: int) -> None:
    """Commits batches over two partitions with a position for ever, printing the number of each when it is in."""
    with open_bus(url) as bus, bus.writer("killed") as writer:
        for number in count(first):
            value = str(number).encode()
            outputs = [Output(topic, value, partition=i % 2, headers=(("i", str(i).encode()),)) for i in range(BATCH)]
            writer.commit(outputs, {Partition(topic, 0): Position(number, str(number))}, "killed")
            print(number, flush=True)


def join(url: str, topic: str, group: str) -> None:
    """Joins a group, prints what it is given, and polls for ever."""
    with open_bus(url) as bus, bus.member(group, [topic]) as member:
        while True:
            for partition in member.poll(0.1).assigned:
                print(partition.index, flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["append", url, topic, name, batches]:
            append(url, topic, name, int(batches))
        case ["commit", url, topic, first]:
            commit(url, topic, int(first))
        case ["join", url, topic, group]:
            join(url, topic, group)
        case other:
            raise SystemExit(f"unknown arguments {other}")
