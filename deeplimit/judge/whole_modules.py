"""What a comparison says of a module that is no stack of blocks."""

from __future__ import annotations

from typing import Any

from deeplimit.common import validation


def refusal(module: Any) -> TypeError:
    """Return the error of a module, or its class, in the place of a network: it names what takes it."""
    is_class = isinstance(module, type)
    name = module.__name__ if is_class else "factory"
    passed = f"the class {name}" if is_class else validation.named(module)
    return TypeError(
        "resnet must be a ResidualNetwork, such as res1(width=40), or a function of the depth that returns"
        f" torch blocks in order, or a model that writes its layers out, with their inputs x; got {passed}."
        f" identify({name}, x) says which limit {name}(depth) has. If its forward is its layers alone,"
        f" compare({name}, limit, x) takes an ODE f(t, h), or an SDE if weights are normal,"
        f" compare_laws({name}, limit, x) any SDE, and stability({name}, x=x) measures growth."
        " check_depth(factory) and probe(model, batch) take any module."
    )
