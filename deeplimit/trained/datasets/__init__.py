"""Training and test sets: the papers' own, images inside Python packages, OpenML's, and a user's."""

from deeplimit.trained.datasets.data import Data
from deeplimit.trained.datasets.images import digits, embedded_mnist, mnist
from deeplimit.trained.datasets.openml import openml
from deeplimit.trained.datasets.synthetic import synthetic_system

__all__ = ["Data", "digits", "embedded_mnist", "mnist", "openml", "synthetic_system"]
