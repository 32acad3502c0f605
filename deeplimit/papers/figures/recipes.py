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

RECIPES = {
    recipe.name: recipe
    for recipe in (
        *sorted(
            (
                *initialisation_figures.FIGURES,
                *trained_scaling_figures.FIGURES,
                *trained_denoising_figure.FIGURES,
                *trained_convolution_figures.FIGURES,
                *trained_classifier_figures.FIGURES,
            ),
            key=lambda recipe: (recipe.paper.name, recipe.number or 0),
        ),
        trained_classifier_figures.STAND_IN,
        trained_network_and_its_limit.RECIPE,
        tied_initialisation.RECIPE,
        mean_field_training.RECIPE,
        transformer_rates.RECIPE,
        stop_rule.RECIPE,
    )
}
