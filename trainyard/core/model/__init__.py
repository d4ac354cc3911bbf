"""The models that every other package uses."""
