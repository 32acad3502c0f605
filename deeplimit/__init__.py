"""deeplimit: residual networks of finite depth, and what they become as the depth goes to infinity.

The public names stand once, in `__init__.pyi`. They are loaded when first used, so that
`import deeplimit` and `deeplimit --help` do not wait for torch.
"""

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name not in __all__:
        known = ", ".join(sorted(__all__))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public names: {known}")
    return _load(name)
