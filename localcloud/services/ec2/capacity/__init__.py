"""How many instances may start where."""
