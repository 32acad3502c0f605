"""Training against a plain loop with torch's own layers, gradients, losses and optimisers."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.common.randomness import Purpose, generator

DIGITS = dl.datasets.digits()
LABELS = dl.datasets.Data.of(DIGITS.inputs[:90], DIGITS.targets[:90], test=20)
NUMBERS = dl.datasets.synthetic_system(width=4, count=70, test=20)


class _Plain(torch.nn.Module):
    """h + L^-exponent δ tanh(A h + b) with one trained δ ≥ 0, between linear maps where there are classes."""

    def __init__(self, drawn, exponent):
        super().__init__()
        self.names = {name: name.replace(".", "_") for name in drawn}
        for name, value in drawn.items():
            self.register_parameter(self.names[name], torch.nn.Parameter(value.clone()))
        self.exponent = exponent

    def forward(self, x):
        maps = hasattr(self, "input_weight")
        h = torch.nn.functional.linear(x, self.input_weight, self.input_bias) if maps else x
        for matrix, bias in zip(self.A, self.b, strict=True):
            h = h + len(self.A) ** -self.exponent * self.δ.abs() * torch.tanh(
                torch.nn.functional.linear(h, matrix, bias)
            )
        return torch.nn.functional.linear(h, self.output_weight, self.output_bias) if maps else h


@pytest.mark.parametrize("data", [NUMBERS, LABELS], ids=["numbers", "labels"])
def test_training_is_a_plain_loop_with_autograd_and_the_optimizers_of_torch(data):
    depth, batch, epochs, seed, exponent = 5, 16, 5, 7, 0.3
    assert len(data.inputs) % batch  # the last batch is smaller
    network = dl.fully_connected(4, "tanh", exponent=exponent)
    initial = dl.SmallGaussian(0.5)
    report = dl.train(
        network, [depth], data, repeats=2, tied="delta", nonnegative="delta", initial=initial, seed=seed,
        optimizer=dl.Adam(0.004, depth_exponent=0.5, every=2, factor=0.3), batch=batch, epochs=epochs,
        dtype=torch.float64,
    )  # fmt: skip
    assert {word for row in report.endings for word in row} == {"epochs"}
    x, y = data.inputs.double(), data.targets
    loss = torch.nn.functional.mse_loss if data is NUMBERS else torch.nn.functional.cross_entropy
    y = y.double() if data is NUMBERS else y
    for repeat in range(2):
        stream = generator(seed, Purpose.TRAINED_WEIGHTS, depth, repeat)
        drawn = initial.draw(network, depth, frozenset({"δ"}), stream)
        if data is LABELS:
            drawn |= dl.LinearEnds(64, 10).draw(4, generator(seed, Purpose.TRAINED_ENDS, depth, repeat))
        plain = _Plain(drawn, exponent)
        optimizer = torch.optim.Adam(plain.parameters(), 0.004 * depth**0.5)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.3)
        for epoch in range(epochs):
            stream = generator(seed, Purpose.ORDER_OF_INPUTS, depth, repeat * 2**20 + epoch)
            order, total = torch.randperm(len(x), generator=stream), 0.0
            for rows in order.split(batch):
                optimizer.zero_grad()
                value = loss(plain(x[rows]), y[rows])
                value.backward()
                optimizer.step()
                total += float(value.detach()) * len(rows)
            schedule.step()
            assert report.histories[0, repeat, epoch] == pytest.approx(total / len(x), rel=1e-9)
        trained = report.networks.networks[depth, repeat].parameters
        for name, value in plain.named_parameters():
            ours = trained[next(key for key, other in plain.names.items() if other == name)]
            wanted = value.detach().numpy().reshape(ours.shape)
            np.testing.assert_allclose(ours, wanted, rtol=1e-6, atol=1e-9)
        tests = data.test_inputs.double()
        with torch.no_grad():
            found = plain(tests)
        torch.testing.assert_close(report.outputs(tests, depth, repeat), found, rtol=1e-7, atol=1e-9)


def test_ends_begin_as_linear_layers_of_torch_do():
    drawn = dl.LinearEnds(100, 30).draw(400, torch.Generator().manual_seed(0))
    for name, columns in (("input", 100), ("output", 400)):
        for kind in ("weight", "bias"):
            largest = float(drawn[f"{name}.{kind}"].abs().max())
            assert 0.6 < largest * columns**0.5 <= 1.0  # uniform on ±1/√columns


def test_outputs_of_many_inputs_are_those_of_each_part():
    x = torch.randn(600, 4, generator=torch.Generator().manual_seed(0))  # more than are given at once
    report = dl.train(dl.res1(4, "tanh", exponent=0.5), [70], NUMBERS, epochs=1)
    parts = [report.outputs(part, 70) for part in x.split(100)]
    torch.testing.assert_close(report.outputs(x, 70), torch.cat(parts), rtol=1e-6, atol=1e-7)
