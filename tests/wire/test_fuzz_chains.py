"""What chains, samplers and combiners write, as `test_fuzz`: a value or the decoder's own error, whatever comes."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from hypothesis import given

from streaminfer.sampling.pooled.shown import Sampled
from streaminfer.wire import snapshots
from streaminfer.wire.errors import WireError
from streaminfer.wire.sampled import answers, draws, questions, sampler_states
from streaminfer.wire.snapshots import OtherSpec
from tests.wire import (
    chain_messages,
    question_messages,
    test_draws,
    test_questions,
    test_sampled_snapshots,
    test_sampler_states,
)
from tests.wire.budget import examples
from tests.wire.chain_messages import SIZE, UNIT
from tests.wire.messages import ABOUT, FINGERPRINT, NATURAL
from tests.wire.mutation import LONGS, arbitrary, mutated

SAMPLED = [
    data for size in (1 << 20, snapshots.ENVELOPE + 500)
    for _, data in snapshots.encode(
        test_sampled_snapshots.snapshot(Sampled(chain_messages.VALUES, chain_messages.shown())), NATURAL, ABOUT, size
    )
]  # fmt: skip


@examples("snapshots.add of draws, mutated")
@given(mutated(SAMPLED, LONGS))
def test_snapshots_of_draws_mutated(messages: list[bytes]) -> None:
    assembler = test_sampled_snapshots.reader()
    for data in messages:
        with suppress(WireError, OtherSpec):
            found = assembler.add(data)
            if found is not None:
                made = found.payload.sampled
                assert made is not None
                assert made.draws.shape[1] == SIZE
                assert np.isfinite(made.draws).all()
                assert min(made.shown.n_draws, *made.shown.counters, len(made.shown.chains)) >= 0


DRAWS = [
    data for size in (1 << 20, test_draws.TIGHT + 24) for _, data in draws.encode(chain_messages.draws(), 5, 9, size)
]
DRAWS_KEYS = [draws.RecordKey(5, 4, 9, part).key for part in range(3)]


def _add_draws(messages: list[bytes]) -> None:
    held = draws.Assembler(FINGERPRINT, UNIT, SIZE)
    for i, data in enumerate(messages):
        with suppress(WireError):
            found = held.add(DRAWS_KEYS[i % 3], data)
            if found is not None:
                made = found.draws
                assert all(np.isfinite(each).all() for each in (made.values, made.weights, made.log_density, made.size))
                assert made.values.shape == (len(made.weights), SIZE)
                assert min(made.n_events, made.begin, made.end - made.begin, *made.counters) >= 0


@examples("draws.add, arbitrary bytes")
@given(arbitrary())
def test_draws_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _add_draws([data, b"\x00\x00\x00\x00\x0a" + data])


@examples("draws.add, mutated")
@given(mutated(DRAWS, LONGS))
def test_draws_mutated(messages: list[bytes]) -> None:
    _add_draws(messages)


ASKED = [
    data for size in (1 << 20, test_questions.TIGHT + 24)
    for _, data in questions.encode(question_messages.question(), FINGERPRINT, size)
]  # fmt: skip
ANSWERED = [
    data for size in (1 << 20, test_questions.TIGHT_ANSWER + 24)
    for _, data in answers.encode(question_messages.answer(), FINGERPRINT, size)
]  # fmt: skip


def _ask(messages: list[bytes]) -> None:
    asked, answered = question_messages.questions_reader(), question_messages.answers_reader()
    for i, data in enumerate(messages):
        with suppress(WireError):
            question = asked.add(f"part-{i % 3}".encode(), data)
            if question is not None:
                assert np.isfinite(question.theta).all()
                assert question.theta.shape[1] == question_messages.DIMENSION
                assert all(span.start <= span.end for share in question.shares for span in share.spans)
        with suppress(WireError):
            answer = answered.add(f"part-{i % 3}".encode(), data)
            assert answer is None or np.isfinite(answer.values).all()


@examples("questions.add and answers.add, arbitrary bytes")
@given(arbitrary())
def test_questions_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _ask([data, b"\x00\x00\x00\x00\x0d" + data, b"\x00\x00\x00\x00\x0e" + data])


@examples("questions.add and answers.add, mutated")
@given(mutated([*ASKED, *ANSWERED], LONGS))
def test_questions_mutated(messages: list[bytes]) -> None:
    _ask(messages)


STATES = [
    data for size in (1 << 20, test_sampler_states.TIGHT + 24)
    for _, data in sampler_states.encode(chain_messages.state(), size)
]  # fmt: skip
STATE_KEYS = [f"part-{part}".encode() for part in (1, 2, 3, 0)]


def _add_states(messages: list[bytes]) -> None:
    for before in ([], STATES[:1]):
        shelf = sampler_states.Shelf(FINGERPRINT, UNIT, 20)
        for key, data in zip(STATE_KEYS, [*before, *messages], strict=False):
            for name in (key, STATE_KEYS[-1]):
                with suppress(WireError):
                    shelf.add(name, data)
        if shelf.newest is not None:
            assert shelf.newest.values.size + shelf.newest.setup.size <= 20
            assert np.isfinite(shelf.newest.values).all()
            assert np.isfinite(shelf.newest.setup).all()


@examples("sampler_states.add, arbitrary bytes")
@given(arbitrary())
def test_states_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _add_states([data, b"\x00\x00\x00\x00\x0b" + data])


@examples("sampler_states.add, mutated")
@given(mutated(STATES, LONGS))
def test_states_mutated(messages: list[bytes]) -> None:
    _add_states(messages)
