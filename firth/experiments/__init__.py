"""The shipped recipes, the tour, and `verify`, which checks a recipe's expected result."""
