from __future__ import annotations

import numpy as np

from streaminfer.sampling.gradients.minibatches import Random, Shuffled
from streaminfer.sampling.randomness import Key

KEY = Key(1, "steps")


def test_random_minibatches_are_uniform() -> None:
    drawn = Random(10, 50).indices(np.random.default_rng(1), 0, 1000)
    counts = np.bincount(drawn.ravel(), minlength=10)
    assert drawn.shape == (1000, 50)
    assert np.abs(counts - 5000).max() < 6 * np.sqrt(5000)


def test_each_epoch_has_every_row_once_and_the_rest_goes_into_the_next() -> None:
    shuffled, rng = Shuffled(10, 4, KEY), np.random.default_rng(1)
    drawn = shuffled.indices(rng, 0, 15)
    assert drawn.shape == (15, 4)
    epochs = drawn.reshape(6, 10)
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 6


def test_a_step_finds_its_rows_without_those_before() -> None:
    rng = np.random.default_rng(1)
    whole = Shuffled(10, 4, KEY).indices(rng, 0, 40)
    for first in (0, 1, 2, 3, 17, 38):
        np.testing.assert_array_equal(Shuffled(10, 4, KEY).indices(rng, first, 2), whole[first : first + 2])
    other = Shuffled(10, 4, KEY._replace(unit=1)).indices(rng, 0, 40)
    assert (other != whole).any()


def test_minibatches_larger_than_the_data_take_several_permutations() -> None:
    drawn = Shuffled(3, 7, KEY).indices(np.random.default_rng(1), 0, 3)
    assert drawn.shape == (3, 7)
    np.testing.assert_array_equal(np.bincount(drawn.ravel()), [7, 7, 7])
