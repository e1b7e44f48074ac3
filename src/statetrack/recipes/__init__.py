"""Recipes: published experiments as plain Python objects."""

from statetrack.recipes.base import Recipe, recipes, register

__all__ = ["Recipe", "recipes", "register"]
