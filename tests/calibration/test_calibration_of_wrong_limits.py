"""Wrong limits are caught and none is called right, as docs/statistics.md says: 20 replications each."""

import pytest

import deeplimit as dl
from deeplimit.cases.wrong_limits import AlteredSDE, stratonovich_drift, tanh_derivative

pytestmark = [pytest.mark.slow, pytest.mark.statistical]
NETWORK = dl.res1(4, "tanh")
SDE = NETWORK.limit()
REPLICATIONS = 20


def verdicts(limit, **settings):
    settings = {"depths": [16, 32, 64, 128, 256], "paths": 512, **settings}
    return {dl.compare(NETWORK, limit, seed=seed, **settings).verdict for seed in range(REPLICATIONS)}


@pytest.mark.parametrize(
    "limit",
    [
        AlteredSDE(SDE, diffusion_scale=0.9),
        AlteredSDE(SDE, drift=lambda h: 0.1 * h.new_ones(h.shape)),
        AlteredSDE(SDE, drift=stratonovich_drift(SDE, tanh_derivative)),
        dl.Independent(SDE),
    ],
    ids=["diffusion", "drift", "Stratonovich", "independent"],
)
def test_a_wrong_limit_is_caught_in_every_replication(limit):
    assert verdicts(limit) == {"does not converge"}


@pytest.mark.parametrize(
    "settings", [{"paths": 256}, {"paths": 20_000, "depths": [16, 32, 64, 128]}], ids=["few", "many"]
)
def test_a_limit_that_is_slightly_off_is_never_called_right(settings):
    assert verdicts(AlteredSDE(SDE, diffusion_scale=0.98), **settings) == {"cannot tell"}
