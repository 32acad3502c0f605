"""Weak orders whose intervals say little, and means that cross their limit."""

import pytest

import deeplimit as dl

PROBLEMS = dl.testing.PROBLEMS


def test_a_weak_order_that_excludes_the_next_higher_one_is_documented():
    problem = PROBLEMS["geometric Brownian motion"]
    steps = (4, 8, 16, 32)
    found = dl.check_solver("euler", problem.equation, problem.x, kind="weak", steps=steps, paths=4096)
    assert found.verdict == "documented order"
    assert all(low < 0.1 and high < 2 for low, high in (each.rate_interval for each in found.functions))


@pytest.mark.parametrize("steps", [(1, 2, 4), (8, 16, 32)])
def test_weak_orders_of_three_levels_accuse_nobody_and_are_not_documented(steps):
    """Mean cosines of these coarse steps cross their limit: their last change is next to nothing."""
    problem = PROBLEMS["geometric Brownian motion"]
    found = dl.check_solver("euler", problem.equation, problem.x, kind="weak", steps=steps, paths=16384)
    assert (found.verdict, found.rule) == ("cannot tell", "weak_intervals_are_wide")
    assert all(each.rate_interval[0] < 0.1 for each in found.functions)
    assert str((*steps, 2 * steps[-1])) in found.headline  # more levels, not more paths
    assert "distance to reference" not in found.to_frame().columns
    strong = dl.check_solver("euler", problem.equation, problem.x, steps=(4, 8, 16), paths=64)
    assert "distance to reference" in strong.to_frame().columns
