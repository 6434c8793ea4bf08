"""Where a worker's passes over the data end, and its minibatches with them."""

from __future__ import annotations

from streaminfer.bus.protocol import Position
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.reading.tape import Minibatch, Tape
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.variational import epochs
from streaminfer.variational.methods import method_of


class Passes:
    """The ends that the newest snapshots fix, for the tapes of one worker."""

    def __init__(self, spec: Spec, shards: Shards) -> None:
        self._spec, self._shards = spec, shards

    def end(self, part: Tape | Minibatch) -> int | None:
        """Where every pass over a partition ends, once that is fixed."""
        snapshot = self._shards.snapshot
        return None if snapshot is None else snapshot.frontier.ends.get(part.partition.index)

    def in_last_epoch(self) -> bool:
        """Whether this pass goes on beyond the ends, with whatever came later."""
        snapshot, n_epochs = self._shards.snapshot, self._spec.inference.n_epochs
        return n_epochs == 1 or (snapshot is not None and snapshot.frontier.epoch == n_epochs - 1)

    def at_end(self, tape: Tape, position: int | None = None) -> bool:
        """Whether a position, or all that was read, is at the end of this pass and another must come first."""
        end = None if self.in_last_epoch() else self.end(tape)
        return end is not None and (tape.end if position is None else position) >= end

    def is_first(self, part: Tape | Minibatch) -> bool:
        """Whether the events of a minibatch, or those that a tape is to read next, were never read before."""
        return epochs.is_first(part.epoch, part.begin, self.end(part))

    def stop(self, tape: Tape, mark: Position | None = None) -> int | None:
        """The latest end of a minibatch: the mark, the end of passes, or the frontier of a shard that is ahead.

        So one that had to be repeated for a shard meets the others again at the next of their frontiers.
        """
        shards = self._shards.snapshots if self._spec.shards > 1 else []
        stops = [shard.frontier.positions.get(tape.partition.index, 0) for shard in shards]
        end = self.end(tape)
        stops += [] if end is None else [end]
        # A mark before the end was set when there was less: cut there, a batch would not be that of the pass before.
        stops += [] if mark is None or (end is not None and mark.offset < end) else [mark.offset]
        return min((stop for stop in stops if stop > tape.begin), default=None)

    def gaps(self, tape: Tape, start: int) -> list[tuple[int, int]]:
        """What is lost before a log's start: up to the end of this pass, and apart from it what comes after."""
        end = self.end(tape)
        if end is None or not tape.end < end < start:
            return [(tape.end, start)]
        return [(tape.end, end), *([] if self.at_end(tape, end) else [(end, start)])]

    def keeps_batches(self, tape: Tape) -> bool:
        """Whether what is to be read next was a batch before, and only as a whole can be one again."""
        return method_of(self._spec.inference).keeps_batches and not self.is_first(tape)

    def check_whole(self, batch: Minibatch, stop: int | None = None) -> None:
        """Raises Fatal if a minibatch that is to be visited again ends for its size.

        That end depends on its records: if one of them was gone at the next visit, it would be another batch.
        """
        inference = self._spec.inference
        if not method_of(inference).keeps_batches or inference.n_epochs == 1 or batch.end in {stop, self.end(batch)}:
            return
        if batch.end % inference.minibatch:
            raise Fatal(
                f"{batch.partition} from {batch.begin} on: {inference.minibatch} documents are too many for one batch "
                "of memoized inference: give the spec a new name and make inference.minibatch smaller"
            )

    def next_batch(self, tape: Tape, start: int) -> int:
        """The first position of the first batch that has lost nothing; in the first pass they end at multiples."""
        minibatch = self._spec.inference.minibatch
        whole = -(-start // minibatch) * minibatch
        end = self.end(tape)
        return whole if end is None else min(whole, end)
