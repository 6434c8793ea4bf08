"""The child as its monitor has it: started when there is work, asked without waiting, killed if it takes too long."""

from __future__ import annotations

import logging
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from streaminfer.runtime.monitoring.measuring import frames, messages
from streaminfer.runtime.monitoring.measuring.frames import BrokenPipe, Frame, Incoming
from streaminfer.runtime.monitoring.measuring.messages import Begin, Request
from streaminfer.runtime.monitoring.measuring.pacing import Bucket
from streaminfer.runtime.running.threads import THREADS
from streaminfer.spec import Spec

log = logging.getLogger(__name__)

MODULE: Final = "streaminfer.runtime.monitoring.measuring.child"
READ: Final = 1 << 16


class Helper:
    """At most one child at a time. No call waits, and whatever becomes of the child is told by `answers`."""

    def __init__(self, spec: Spec, bus: str, writer: str, clock: Callable[[], float]) -> None:
        self._spec, self._bus, self._writer, self._clock = spec, bus, writer, clock
        self._process: subprocess.Popen[bytes] | None = None
        self._incoming, self._outgoing = Incoming(), b""
        self._bucket, self._began_with = Bucket(spec.monitor.share, clock()), _used_by_children()
        self.pids: list[int] = []
        """Of all children so far."""

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def may_start(self) -> bool:
        """Whether the children before have left any of their share."""
        return self._bucket.look(self._clock(), _used_by_children() - self._began_with) > 0

    def ask(self, request: Request) -> None:
        """Sends a request to the child, which is started if there is none."""
        if not self.alive:
            self._start()
        self._outgoing += frames.packed(messages.request_frame(self._spec, request))
        self._write()

    def _start(self) -> None:
        self.end()
        seconds = self._bucket.look(self._clock(), _used_by_children() - self._began_with)
        begin = Begin(
            self._spec.document, str(self._spec.folder.absolute()), self._spec.fingerprint, self._bus, self._writer,
            seconds,
        )  # fmt: skip
        flags = ["-P"] if sys.flags.safe_path else []
        environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
        # in a group of its own: an interrupt of the terminal is the monitor's, which then ends it
        self._process = subprocess.Popen(
            [sys.executable, *flags, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
            bufsize=0, process_group=0,
        )  # fmt: skip
        self.pids.append(self._process.pid)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        self._incoming, self._outgoing = Incoming(), frames.packed(messages.begin_frame(begin))

    def _write(self) -> None:
        """As much as the pipe takes now."""
        pipe = None if self._process is None else self._process.stdin
        try:
            while self._outgoing and pipe is not None:
                written = pipe.write(self._outgoing)
                if not written:
                    return
                self._outgoing = self._outgoing[written:]
        except BlockingIOError:
            return
        except OSError as error:  # the child is gone, which `alive` tells
            log.info("the child that measures takes no more: %s", error)
            self._outgoing = b""

    def answers(self) -> list[Frame]:
        """What has come since the last call."""
        self._write()
        pipe = None if self._process is None else self._process.stdout
        found: list[Frame] = []
        while pipe is not None:
            try:
                data = pipe.read(READ)
            except BlockingIOError:
                break
            if not data:
                break
            try:
                found += self._incoming.take(data)
            except BrokenPipe as error:
                log.warning("the child that measures is ended: %s", error)
                self.end()
                break
        return found

    def end(self) -> None:
        """Kills the child, if there is one."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None


def _used_by_children() -> float:
    """CPU seconds of children of this process that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
