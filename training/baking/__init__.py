"""The host's half of a bake: install what the recipe says, and test it before there is an image of it.

Read in this order: __main__ (what the documents call), install, tests, then what they use. It runs on the builder with
the Python that it fills, so nothing here imports TensorFlow: what must is run as a program of its own
(tensorflow_facts, pair).
"""
