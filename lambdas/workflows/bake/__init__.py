"""The functions of the workflow bake."""
