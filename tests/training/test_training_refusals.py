"""What cannot be trained is refused before anything runs; messages name the argument and the value."""

import pytest
import torch

import deeplimit as dl

DATA = dl.datasets.synthetic_system(width=4, count=40, test=10)
RES1 = dl.res1(4, "tanh", exponent=0.5)
RECORDED = dl.res1(4, "tanh", weights=dl.Recorded({8: torch.ones(8, 4, 4)}), exponent=0.0)


def _with_weight(name, takes_bias=False):
    bias = takes_bias

    class Diagonal(dl.Recursion):
        formula = dl.Formula("h + L^-{exponent} h∘{W}")
        weights = (dl.Weight(name, "d"),)
        takes_bias = bias

        def residual(self, h, layers, exponent):
            (layer,) = layers
            return h * layer.values * layer.depth**-exponent

    Diagonal.name = "diagonal"
    return dl.ResidualNetwork(Diagonal("tanh"), 4, dl.SmoothGaussian(), 1.0)


@pytest.mark.parametrize(
    ("network", "arguments", "kind", "words"),
    [
        (RES1, dict(fixed="V"), ValueError, ("fixed", "'V'")),
        (RES1, dict(tied=3), TypeError, ("tied", "3")),
        (RES1, dict(nonnegative=[1]), TypeError, ("nonnegative", "1")),
        (RES1, dict(checkpoints=3), TypeError, ("checkpoints", "3")),
        (RES1, dict(checkpoints=__file__), ValueError, ("checkpoints", __file__)),
        (RES1, dict(dtype=torch.float16), ValueError, ("dtype", "float16")),
        (RES1, dict(initial=dl.SmallGaussian), TypeError, ("initial", "SmallGaussian")),
        (RES1, dict(ends=dl.PooledEnds(4, 4)), ValueError, ("ends", "LinearEnds(4, 4)")),
        (dl.attention(2, tokens=2), dict(), ValueError, ("ends", "(2, 2)", "deeplimit.Ends")),
        (RECORDED, dict(), ValueError, ("depths", "[9]")),
        (_with_weight("W.1"), dict(), ValueError, ("network", "'W.1'")),
        (_with_weight("b", True), dict(), ValueError, ("network", "'b'")),
    ],
)
def test_training_that_cannot_be_is_refused_before_it_runs(network, arguments, kind, words):
    ticks = []
    with pytest.raises(kind) as raised:
        dl.train(network, [8, 9], DATA, epochs=1, progress=ticks.append, **arguments)
    assert all(word in str(raised.value) for word in words), str(raised.value)
    assert ticks == []


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: dl.LinearEnds(4, 4, trained=3), "trained"),
        (lambda: dl.FromWeightLaws(3), "same_in_all_layers"),
    ],
)
def test_what_is_not_true_or_false_is_refused(make, argument):
    with pytest.raises(TypeError, match=argument) as raised:
        make()
    assert "3" in str(raised.value)


def test_a_weight_that_is_called_like_the_bias_is_a_weight():
    report = dl.train(_with_weight("b"), [8], DATA, epochs=1)
    (law,) = report.trained().weights
    assert not law.has_bias
    assert torch.equal(law.stacks[8]["A"], report.weights()[8][0]["b"])


def test_a_shared_factor_is_one_over_the_depth_at_first():
    network = dl.fully_connected(4, "tanh", exponent=0.5)
    drawn = dl.SmallGaussian().draw(network, 8, frozenset({"δ"}), torch.Generator().manual_seed(0))
    assert drawn["δ"].tolist() == [0.125]
    assert float(drawn["A"].abs().max()) < 5 * 0.01 / (8 * 4)
    report = dl.train(network, [4], DATA, epochs=1, fixed=("A", "b", "delta"), ends=dl.LinearEnds(4, 4),
                      tied="delta", initial=dl.SmallGaussian())  # fmt: skip
    assert float(report.weights()[4][0]["delta"]) == pytest.approx(0.25 * 4**-0.5)  # L^-exponent included


def test_infinite_weights_have_diverged_even_where_outputs_are_finite():
    network = dl.inner(4, "tanh", exponent=0.5)  # tanh of infinity is 1
    report = dl.train(network, [8], DATA, optimizer=dl.SGD(1e80), epochs=1, batch=None)
    assert report.endings == (("diverged",),)
    assert report.weights() == {}
