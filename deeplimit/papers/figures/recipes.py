"""Every figure and experiment that can be made again, by its name."""

from deeplimit.papers.figures import (
    initialisation_figures,
    mean_field_training,
    stop_rule,
    tied_initialisation,
    trained_classifier_figures,
    trained_convolution_figures,
    trained_denoising_figure,
    trained_network_and_its_limit,
    trained_scaling_figures,
    transformer_rates,
)
from deeplimit.papers.figures.images import PACKAGED, Images
from deeplimit.papers.figures.recipe import Recipe


def on_images(images: Images) -> dict[str, Recipe]:
    """Return the figures of networks that are trained on images, by name."""
    rooms = (trained_scaling_figures, trained_convolution_figures, trained_classifier_figures)
    return {recipe.name: recipe for room in rooms for recipe in room.on_images(images)}


def _all() -> dict[str, Recipe]:
    published = (
        *initialisation_figures.FIGURES,
        trained_scaling_figures.ON_SYNTHETIC_DATA,
        *trained_denoising_figure.FIGURES,
        *on_images(PACKAGED).values(),
    )
    experiments = (
        trained_network_and_its_limit.RECIPE,
        tied_initialisation.RECIPE,
        mean_field_training.RECIPE,
        transformer_rates.RECIPE,
        stop_rule.RECIPE,
    )
    # The second half of a figure has no number, and stands behind those that have one.
    ordered = sorted(published, key=lambda recipe: (recipe.number is None, recipe.paper.name, recipe.number))
    return {recipe.name: recipe for recipe in (*ordered, *experiments)}


RECIPES = _all()
