"""What to do when a package that a user's module needs does not work where it is installed."""

from __future__ import annotations

import torch

OPERATORS = "operator torchvision::"


def advice(error: BaseException) -> str | None:
    """Return what to do about an installation that made `error` happen; None if nothing is known about it.

    Known: torchvision's wheel on PyPI is built for CUDA. Its operators do not load beside a torch for the
    CPU, and importing timm or a model of transformers then fails.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, RuntimeError) and OPERATORS in str(cause):
            index = "https://download.pytorch.org/whl/cpu"
            return (
                f"The installed torchvision was not built for the installed torch {torch.__version__}."
                " timm and transformers cannot be imported with it. Install both from one place, for example"
                f" pip install --force-reinstall torch torchvision --index-url {index}; or, if only"
                " transformers is needed, pip uninstall torchvision."
            )
        cause = cause.__cause__ or cause.__context__
    return None
