"""Streams of random numbers: what they are made of, that no two are one, and that they look random."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from deeplimit.common import randomness
from deeplimit.common.randomness import Purpose, generator


def test_a_stream_depends_on_each_of_its_arguments_and_on_nothing_else():
    calls = list(itertools.product((0, 1, 2**32, 2**40 + 1), (Purpose.INPUTS, Purpose.PROBE), (0, 1), (0, 7)))
    firsts = {torch.randn(2, generator=generator(*call)).numpy().tobytes() for call in calls}
    assert len(firsts) == len(calls)
    a, b = (torch.randn(2000, generator=generator(3, Purpose.INPUTS, 5, 1)) for _ in range(2))
    assert torch.equal(a, b)


@pytest.mark.parametrize("blocks", [(4279, 16747), (17148, 21205), (8010, 41497)])
def test_blocks_whose_seeds_share_their_low_32_bits_have_different_streams(blocks):
    """These pairs drew the same numbers while a stream was what `manual_seed` makes of 64 bits."""
    lows = [np.random.SeedSequence([0, 2, block, 0]).generate_state(2, np.uint32)[1] for block in blocks]
    assert lows[0] == lows[1]
    seeded = [torch.Generator().manual_seed(int(lows[0]) + high * 2**32) for high in (0, 5)]
    assert torch.equal(*(torch.randn(9, generator=one) for one in seeded))  # why 64 bits are not enough
    a, b = (torch.randn(64, generator=generator(0, Purpose.NETWORK_WEIGHTS, block)) for block in blocks)
    assert (a != b).all()


def test_a_stream_is_the_mersenne_twister_of_numpy_with_the_same_words():
    made = generator(11, Purpose.PROBE, 3)
    key = made.get_state().numpy()[24 : 24 + 8 * 624].view(np.uint64).astype(np.uint32)
    twister = np.random.RandomState()
    twister.set_state(("MT19937", key, 624))
    by_numpy = twister.randint(0, 2**32, size=2000, dtype=np.uint32) % 2**24 / 2**24  # float32 keeps 24 bits
    np.testing.assert_array_equal(torch.rand(2000, generator=made).numpy(), by_numpy)


@pytest.mark.statistical
def test_first_draws_of_many_streams_are_independent_normals():
    """At level 1e-6 each: their law, and the correlation of neighbouring streams and of draws in a stream."""
    draws = torch.stack([torch.randn(4, generator=generator(0, Purpose.INPUTS, k)) for k in range(20_000)])
    z = draws.double().numpy()
    for column in z.T:
        assert stats.kstest(column, "norm").pvalue > 1e-6
    pairs = [(z[1:, 0], z[:-1, 0]), (z[2:, 1], z[:-2, 1]), (z[:, 0], z[:, 1]), (z[:, 0] ** 2, z[:, 2] ** 2)]
    for first, second in pairs:
        assert stats.pearsonr(first, second).pvalue > 1e-6


def test_a_state_of_another_layout_is_refused_and_not_written(monkeypatch):
    class Another(torch.Generator):
        def manual_seed(self, seed):
            return super().manual_seed(seed + 1)

    randomness._seeded_state.cache_clear()
    monkeypatch.setattr(torch, "Generator", Another)
    try:
        with pytest.raises(RuntimeError, match=torch.__version__.split("+")[0]):
            generator(0, Purpose.INPUTS)
    finally:
        randomness._seeded_state.cache_clear()
