"""Training and test sets: the papers' own, images inside Python packages, OpenML's, and a user's."""

from deeplimit.datasets.data import Data
from deeplimit.datasets.images import digits, embedded_mnist, mnist
from deeplimit.datasets.openml import openml
from deeplimit.datasets.synthetic import synthetic_system

__all__ = ["Data", "digits", "embedded_mnist", "mnist", "openml", "synthetic_system"]
