"""Compact pictures: legends cover neither points nor ticks."""

import numpy as np

from deeplimit.figures import trained_pictures
from deeplimit.ground import axes as drawing

DEPTHS = [8, 8, 16, 16, 64, 64]
LOSSES = {
    name: [0.04, 0.05, 0.06, 0.03, 0.01, 0.009]
    for name in ("trained", "trend of several networks (as published)", "trend", "of each sign", "with noise")
}
DENOISED = {"panels": [{"activation": name, "depths": DEPTHS, "losses": LOSSES} for name in ("tanh", "ReLU")]}
ACCURACIES = {"hurst": [0.1, 0.5, 0.9], "exponents": [0.1, 0.5, 0.9], "accuracies": np.full((3, 3), 0.9)}


def drawn(draw, numbers):
    """The figure of a compact picture, laid out."""
    axes = drawing.plot(lambda axes: draw(axes, numbers), None, compact=True)
    figure = drawing.figure_of(axes)
    figure.canvas.draw()
    return axes, figure


def test_a_legend_of_denoised_networks_covers_no_point():
    axes, _ = drawn(trained_pictures.denoised, DENOISED)
    assert len(axes.child_axes) == 2
    for panel in axes.child_axes:
        box = panel.get_legend().get_window_extent()
        points = np.concatenate([panel.transData.transform(line.get_xydata()) for line in panel.get_lines()])
        assert not [point for point in points if box.contains(*point)]


def test_a_legend_of_accuracies_covers_no_tick():
    axes, _ = drawn(trained_pictures.accuracies, ACCURACIES)
    box = axes.get_legend().get_window_extent()
    texts = [*axes.get_xticklabels(), axes.xaxis.label]
    assert not [text.get_text() for text in texts if box.overlaps(text.get_window_extent())]
