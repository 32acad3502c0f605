"""Training and test sets: the papers' own, images inside Python packages, OpenML's, and a user's."""

from deeplimit.trained.datasets import Data, digits, embedded_mnist, mnist, openml, synthetic_system

__all__ = ["Data", "digits", "embedded_mnist", "mnist", "openml", "synthetic_system"]
