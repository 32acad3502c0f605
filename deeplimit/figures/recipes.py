"""Every figure that can be made again, by its name."""

from deeplimit.figures import initialisation_figures

RECIPES = {
    recipe.name: recipe
    for recipe in sorted(
        initialisation_figures.FIGURES, key=lambda recipe: (recipe.paper.name, recipe.number)
    )
}
