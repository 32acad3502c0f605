"""Channels are all that passes and limits read of a law: what each states, and what follows from it."""

import dataclasses
import math
from dataclasses import dataclass

import pytest
import torch
from refusals import assert_refused

import deeplimit as dl
from deeplimit.driving import (
    Channel,
    ChannelKind,
    Factors,
    channels_of,
    critical_exponent,
    factors_of,
    functions_of,
    motions_of,
    noise_of,
)
from deeplimit.driving.independent import IncrementPath
from deeplimit.networks.residual_network import simplest

NOISE = dl.Ito(A=0.05, b=0.1)
TREND = dl.Trend(lambda t: torch.eye(3), lambda t: torch.zeros(3))


def test_a_law_has_seven_members_of_which_six_are_written():
    members = {name for name in vars(dl.WeightLaw) if not name.startswith("_")}
    written = {"facts", "layer_exponent", "path", "describe", "channels", "check"}
    assert members == written | {"entry_scale"}


@dataclass(frozen=True)
class Own(dl.WeightLaw):
    """Five members, and layers that are increments of Brownian motion, or what else is stated of them."""

    facts: dl.Facts = dl.Brownian().facts
    stated: tuple[Channel, ...] | None = None
    layer_exponent = 0.5

    def channels(self, shape):
        return (Channel("V", ChannelKind.BROWNIAN, shape),) if self.stated is None else self.stated

    def path(self, shape, grid, paths, generator, dtype):
        return IncrementPath(dl.Brownian(), grid.depths, shape, paths, generator, dtype)

    def describe(self):
        return "five members"


def test_a_law_of_five_members_takes_the_projected_pass_bit_for_bit():
    dl.testing.check_law(Own())
    x = torch.ones(64, 40)
    ours, theirs = (
        dl.compare(dl.res1(40, "tanh", weights=law), None, x, depths=[8, 16, 32], coupling="projected")
        for law in (Own(), dl.Brownian())
    )
    assert ours.errors.tolist() == theirs.errors.tolist()


BROWNIAN = dl.Brownian().facts
HALF = Factors(torch.tensor(0.5, dtype=torch.float64), torch.ones(9, dtype=torch.float64))
SCALED = Channel("V", ChannelKind.BROWNIAN, (9, 9), factors=HALF)


@pytest.mark.parametrize(
    "law",
    [
        Own(dataclasses.replace(BROWNIAN, dependence=dl.Dependence.STATIONARY)),
        Own(dataclasses.replace(BROWNIAN, independent_entries=None)),
        Own(stated=(Channel("V", ChannelKind.INCREMENTS, (9, 9)),)),
        Own(stated=(Channel("V", ChannelKind.BROWNIAN, (9,)),)),
        Own(stated=(dataclasses.replace(SCALED, factors=None), SCALED)),
        dl.AR1(0.5),
        dl.IID("uniform"),
        dl.TrendAndNoise(None, dl.stochastic_volatility(A=0.05), 1.0),
    ],
)
def test_layers_that_are_not_stated_to_be_brownian_increments_are_drawn_whole(law):
    assert factors_of(law, (9, 9)) is None


def test_factors_that_a_channel_states_are_taken_whatever_the_facts():
    assert factors_of(Own(dl.Facts(dl.Dependence.SHRINKING), (SCALED,)), (9, 9)) is HALF


def test_what_a_law_does_not_state_no_limit_shares():
    silent = Own(stated=dl.WeightLaw.channels(Own(), (3, 3)))
    assert [channel.kind for channel in silent.channels((3, 3))] == [ChannelKind.UNSTATED]
    network = dl.res1(3, "tanh", weights=silent)
    call = lambda: dl.compare(network, dl.res1(3, "tanh").limit(), torch.ones(2, 3), depths=[4, 8, 16])  # noqa: E731
    assert_refused(call, ValueError, "compare_laws")


def test_the_motions_of_ito_noise_are_those_of_matrix_bias_and_auxiliary_diffusion():
    law = dl.TrendAndNoise(TREND, dl.stochastic_volatility(A=0.05, b=0.1), 1.0)
    channels = law.channels((3, 3))
    assert [(each.kind, each.motions) for each in channels] == [
        (ChannelKind.FUNCTION, 0),
        (ChannelKind.BROWNIAN, 9),
        (ChannelKind.BROWNIAN, 3),
        (ChannelKind.BROWNIAN, 1),
    ]
    assert (functions_of(channels), noise_of(channels), motions_of(channels)) == ((TREND,), law.ito, 13)


def test_two_weights_of_one_process_have_two_paths_of_it():
    law = dl.TrendAndNoise(None, NOISE, 1.0)
    assert noise_of(channels_of((law,), ((3, 3),))) is NOISE
    assert noise_of(channels_of((law, law), ((3, 3), (3, 3)))) is None


def test_laws_that_are_brownian_motion_by_another_name_are_kept_as_it():
    for law in (dl.AR1(0.0), dl.FractionalBrownian(0.5)):
        assert simplest(law) == dl.Brownian()
        assert dl.res1(3, "tanh", weights=law).weights == (dl.Brownian(),)
    for law in (dl.AR1(0.1), dl.FractionalBrownian(0.6), Own(), TREND):
        assert simplest(law) is law


OF_TIME = (Channel("A", ChannelKind.FUNCTION, ()),)


def test_increments_without_a_natural_exponent_have_that_of_their_layers():
    unknown = dl.Facts(dl.Dependence.INDEPENDENT)
    assert critical_exponent(Own(unknown), (3, 3)) == 0.5
    assert_refused(lambda: critical_exponent(Own(unknown, OF_TIME), ()), ValueError, "exponent")


def stating(shape=(), kind=ChannelKind.BROWNIAN, **more):
    """One channel, for laws that are checked in the shape () alone."""
    return Alone(stated=(Channel("V", kind, shape, **more),))


@dataclass(frozen=True)
class Alone(Own):
    def check(self, shape):
        if shape:
            raise ValueError(f"shape must be (), got {shape}.")


@dataclass(frozen=True)
class Uniform(Alone):
    facts: dl.Facts = dl.IID("uniform").facts

    def path(self, shape, grid, paths, generator, dtype):
        return IncrementPath(dl.IID("uniform"), grid.depths, shape, paths, generator, dtype)


LIES = {
    "too many motions": (stating((2,)), r"\(5, 2\)"),
    "no channel": (Alone(stated=("V",)), "tuple of Channel"),
    "no motion": (stating(kind=ChannelKind.SEPARATE), "no Brownian channels"),
    "another law": (Uniform(), "normal"),
    "a function": (stating(function=TREND), "1 functions"),
    "a response": (stating(response=2.0), "response 2"),
    "a memory": (stating(response=1.0, memory=0.5), "memory 0.5"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_channel_that_is_not_in_the_path_is_found(name):
    law, told = LIES[name]
    with pytest.raises(AssertionError, match=told):
        dl.testing.check_law(law)


def test_the_response_of_a_moving_average_is_measured():
    """(ε_k + a ε_{k-1})/√(1 + a²), which the page on extending names."""
    a = 0.5
    size = math.sqrt(1 + a * a)
    facts = dataclasses.replace(BROWNIAN, dependence=dl.Dependence.STATIONARY)
    for response, kept in (((1 + a) / size, True), (1.5 * (1 + a) / size, False)):
        channel = Channel("V", ChannelKind.BROWNIAN, (), response=response)
        law = MovingAverage(facts, (channel,))
        if kept:
            dl.testing.check_law(law)
        else:
            with pytest.raises(AssertionError, match="response"):
                dl.testing.check_law(law)


@dataclass(frozen=True)
class MovingAverage(Alone):
    def path(self, shape, grid, paths, generator, dtype):
        return Averaging(dl.Brownian(), grid.depths, shape, paths, generator, dtype)


class Averaging(IncrementPath):
    before = None

    def layer(self, j):
        self.before = self.before or {}
        layer = super().layer(j)
        fresh = layer.values.clone()
        last = self.before.get(j, torch.zeros_like(fresh))
        self.before[j] = fresh
        start = fresh if not bool(last.any()) else (fresh + 0.5 * last) / math.sqrt(1.25)
        return dataclasses.replace(layer, values=start)

    def rewind(self):
        super().rewind()
        self.before = None

    def whole(self):
        return None
