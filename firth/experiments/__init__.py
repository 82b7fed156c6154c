"""Recipes that ship with firth, the tour, and the check that a recipe gives what it promises."""
