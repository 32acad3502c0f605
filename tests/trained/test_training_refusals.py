"""What cannot be trained is refused before anything runs; messages name the argument and the value."""

import pytest
import torch
from refusals import assert_refused

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


RUNS = [
    (dict(fixed="V"), ValueError, "fixed", "'V'"),
    (dict(tied=3), TypeError, "tied", "3"),
    (dict(tied="gamma"), ValueError, "tied", "gamma"),
    (dict(nonnegative=[1]), TypeError, "nonnegative", "1"),
    (dict(checkpoints=3), TypeError, "checkpoints", "3"),
    (dict(checkpoints=__file__), ValueError, "checkpoints", __file__),
    (dict(checkpointing=1), TypeError, "checkpointing", "1"),
    (dict(dtype=torch.float16), ValueError, "dtype", "float16"),
    (dict(initial=dl.SmallGaussian), TypeError, "initial", "SmallGaussian"),
    (dict(ends=dl.PooledEnds(4, 4)), ValueError, "ends", "LinearEnds(4, 4)"),
    (dict(ends=dl.LinearEnds(5, 4)), ValueError, "ends", "5"),
    (dict(network="res1"), TypeError, "network", "'res1'"),
    (dict(network=dl.attention(2, tokens=2)), ValueError, "ends", "(2, 2)", "deeplimit.Ends"),
    (dict(network=RECORDED), ValueError, "depths", "[9]"),
    (dict(network=_with_weight("W.1")), ValueError, "network", "'W.1'"),
    (dict(network=_with_weight("b", True)), ValueError, "network", "'b'"),
    (dict(data=(1, 2)), TypeError, "data", "tuple"),
    (dict(depths=[0]), ValueError, "depth", "0"),
    (dict(loss="hinge"), ValueError, "loss", "hinge"),
    (dict(loss="cross entropy"), ValueError, "cross entropy", "labels"),
    (dict(optimizer=0.1), TypeError, "optimizer", "0.1"),
    (dict(batch=0), ValueError, "batch", "0"),
    (dict(epochs=0), ValueError, "epochs", "0"),
    (dict(repeats=0), ValueError, "repeats", "0"),
    (dict(stop=3), TypeError, "stop", "3"),
]


@pytest.mark.parametrize(("arguments", "kind", "names"), [(one, kind, names) for one, kind, *names in RUNS])
def test_training_that_cannot_be_is_refused_before_it_runs(arguments, kind, names):
    ticks = []
    given = dict(network=RES1, depths=[8, 9], data=DATA, epochs=1, progress=ticks.append) | arguments
    assert_refused(lambda: dl.train(**given), kind, *names)
    assert ticks == []


PARTS = [
    (lambda: dl.SGD(0.0), ValueError, "learning_rate", "0"),
    (lambda: dl.SGD(0.1, momentum=1.0), ValueError, "momentum", "1"),
    (lambda: dl.Adam(0.1, first=1.5), ValueError, "first", "1.5"),
    (lambda: dl.Adam(0.1, every=0), ValueError, "every", "0"),
    (lambda: dl.SGD(0.1, cosine=0), ValueError, "cosine", "0"),
    (lambda: dl.Adam(float("nan")), ValueError, "learning_rate", "nan"),
    (lambda: dl.Stop(loss=-1.0), ValueError, "loss", "-1"),
    (lambda: dl.Stop(patience=0), ValueError, "patience", "0"),
    (lambda: dl.Stop(improvement=1.0), ValueError, "improvement", "1"),
    (lambda: dl.SmallGaussian(0.0), ValueError, "size", "0"),
    (lambda: dl.LinearEnds(0, 3), ValueError, "inputs", "0"),
    (lambda: dl.LinearEnds(4, 4, trained=3), TypeError, "trained", "3"),
    (lambda: dl.FromWeightLaws(3), TypeError, "same_in_all_layers", "3"),
    (lambda: dl.FromWeightLaws(same_at_all_depths=True), ValueError, "same_at_all_depths", "False"),
]


@pytest.mark.parametrize(("make", "kind", "names"), [(one, kind, names) for one, kind, *names in PARTS])
def test_parts_of_a_training_out_of_range_are_refused(make, kind, names):
    assert_refused(make, kind, *names)


def test_a_weight_that_is_called_like_the_bias_is_a_weight():
    report = dl.train(_with_weight("b"), [8], DATA, epochs=1)
    (law,) = report.trained().weights
    assert not law.facts.biased
    assert torch.equal(law.stacks[8]["A"], report.weights()[8][0]["b"])


def test_a_shared_factor_is_one_over_the_depth_at_first():
    network = dl.fully_connected(4, "tanh", exponent=0.5)
    drawn = dl.SmallGaussian().draw(network, 8, frozenset({"δ"}), torch.Generator().manual_seed(0))
    assert drawn["δ"].tolist() == [0.125]
    assert float(drawn["A"].abs().max()) < 5 * 0.01 / (8 * 4)
    report = dl.train(network, [4], DATA, epochs=1, fixed=("A", "b", "delta"), ends=dl.LinearEnds(4, 4),
                      tied="delta", initial=dl.SmallGaussian())  # fmt: skip
    assert float(report.weights()[4][0]["delta"]) == pytest.approx(0.25 * 4**-0.5)  # L^-exponent included
