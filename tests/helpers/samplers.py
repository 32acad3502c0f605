"""What tests of laws share."""

import torch

FAR = 4.5  # standard errors; a normal variable is farther with probability 7e-6


def skewed(shape, generator):
    return torch.empty(shape).exponential_(generator=generator) - 1
