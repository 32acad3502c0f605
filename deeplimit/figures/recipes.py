"""Every figure that can be made again, by its name."""

from deeplimit.figures import (
    initialisation_figures,
    trained_classifier_figures,
    trained_convolution_figures,
    trained_denoising_figure,
    trained_scaling_figures,
)

RECIPES = {
    recipe.name: recipe
    for recipe in sorted(
        (
            *initialisation_figures.FIGURES,
            *trained_scaling_figures.FIGURES,
            *trained_denoising_figure.FIGURES,
            *trained_convolution_figures.FIGURES,
            *trained_classifier_figures.FIGURES,
        ),
        key=lambda recipe: (recipe.paper.name, recipe.number),
    )
}
