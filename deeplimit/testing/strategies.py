"""Strategies for hypothesis: activations, weight laws, and networks that a theorem is about.

They draw what statements assume and vary all that these leave open, so that a property that a theorem states
is tested over its networks and not over one. hypothesis is imported when a strategy is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from deeplimit.common import validation
from deeplimit.driving import AR1, Brownian, FractionalBrownian, Ito, SmoothGaussian, Trend, WeightLaw
from deeplimit.networks.residual_network import ResidualNetwork, inner, res1, res2, res3

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SMOOTH = ("tanh", "sin", "gelu", "silu", "softplus", "identity")
KINKED = ("relu", "leaky_relu")
SCALED = ("tanh", "sin")
"""Of slope 1 at 0, as Theorems 4.3 and 4.4 ask for, and bounded, so that no solution explodes."""
SMALL = 0.3
"""Size of trends and, per entry, of noise: solutions move by less than their own size."""


def _strategies() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise ImportError(
            "deeplimit.testing.strategies needs hypothesis, which is not installed: pip install hypothesis."
        ) from error
    return strategies


def activations(*, kinked: bool = True) -> SearchStrategy[str]:
    """Return a strategy for names of Lipschitz activations.

    Args:
        kinked: whether ReLU and its like, which have no derivative at 0, are among them.

    Raises:
        ImportError: where hypothesis is not installed.

    Examples:
        >>> import deeplimit as dl, hypothesis
        >>> smooth = dl.testing.strategies.activations(kinked=False)
        >>> hypothesis.find(smooth, lambda name: name != "tanh") in dl.testing.strategies.SMOOTH
        True
    """
    names: SearchStrategy[str] = _strategies().sampled_from(SMOOTH + KINKED * kinked)
    return names


def weight_laws() -> SearchStrategy[WeightLaw]:
    """Return a strategy for weight laws: independent, correlated, fractional and smooth layers.

    Raises:
        ImportError: where hypothesis is not installed.

    Examples:
        >>> import deeplimit as dl, hypothesis
        >>> print(hypothesis.find(dl.testing.strategies.weight_laws(), lambda law: True).describe())
        i.i.d. Gaussian weights
    """
    st = _strategies()
    laws: SearchStrategy[WeightLaw] = st.one_of(
        st.just(Brownian()),
        st.floats(-0.6, 0.6).map(AR1),
        st.floats(0.55, 0.95).map(FractionalBrownian),
        st.floats(0.3, 1.0).map(SmoothGaussian),
    )
    return laws


def networks(
    theorem: str | None = None, *, widths: tuple[int, int] = (2, 6)
) -> SearchStrategy[ResidualNetwork]:
    """Return a strategy for networks that a theorem pairs with a limit on the same noise.

    Args:
        theorem: "Proposition 11" or "Proposition 12" of Marion et al. (2025), "Theorem 4.3" or "Theorem 4.4"
            of Cohen et al. (2021); None for all four. Solutions of the last exist for all times.
        widths: smallest and largest width d.

    Raises:
        ImportError: where hypothesis is not installed.
        ValueError: for another theorem, and widths that are not increasing positive numbers.

    Examples:
        >>> import deeplimit as dl, hypothesis
        >>> networks = dl.testing.strategies.networks("Proposition 12")
        >>> hypothesis.find(networks, lambda network: network.width > 2).regime().rate
        1.0
    """
    st = _strategies()
    low, high = (validation.integer(each, "widths", minimum=1) for each in widths)
    if low > high:
        raise ValueError(f"widths must be (smallest, largest), got {widths!r}.")
    if theorem is not None:
        validation.choice(theorem, "theorem", tuple(_FAMILIES))
    chosen = tuple(_FAMILIES) if theorem is None else (theorem,)

    @st.composite  # type: ignore[untyped-decorator]
    def drawn(draw: Callable[[Any], Any]) -> ResidualNetwork:
        return _FAMILIES[draw(st.sampled_from(chosen))](draw, st, draw(st.integers(low, high)))

    found: SearchStrategy[ResidualNetwork] = drawn()
    return found


def _diffusion(draw: Callable[[Any], Any], st: Any, width: int) -> ResidualNetwork:
    return res1(width, draw(activations()))


def _smooth(draw: Callable[[Any], Any], st: Any, width: int) -> ResidualNetwork:
    weights = SmoothGaussian(draw(st.floats(0.3, 1.0)))
    activation = draw(activations(kinked=False))
    found: ResidualNetwork = draw(
        st.sampled_from(
            [res1(width, activation, weights=weights), res2(width, activation, weights=weights)]
            + [res3(width, weights=weights)] * (activation == "identity")
        )
    )
    return found


def _trend(draw: Callable[[Any], Any], st: Any, width: int) -> ResidualNetwork:
    matrix = SMALL * torch.randn(
        width, width, generator=torch.Generator().manual_seed(draw(st.integers(0, 99)))
    )
    matrix, turns = matrix / width**0.5, draw(st.floats(0.0, 2.0))
    trend = Trend(lambda t: matrix * math.cos(turns * t))
    return inner(width, draw(st.sampled_from(SCALED)), trend=trend, alpha=0.5, beta=0.5)


def _noise(draw: Callable[[Any], Any], st: Any, width: int) -> ResidualNetwork:
    noise = Ito(A=SMALL**2 * draw(st.floats(0.3, 1.0)) / width, b=draw(st.floats(0.05, 0.2)))
    return inner(width, draw(st.sampled_from(SCALED)), noise=noise)


_FAMILIES: dict[str, Callable[[Callable[[Any], Any], Any, int], ResidualNetwork]] = {
    "Proposition 11": _diffusion,
    "Proposition 12": _smooth,
    "Theorem 4.3": _trend,
    "Theorem 4.4": _noise,
}
