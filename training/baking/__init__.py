"""The builder's part of a bake: install the recipe, and test the result before an image is made of it.

Read in this order: __main__ (called by the SSM documents), install, tests, then the modules that they use. This code
runs in the Python that it fills, so it does not import TensorFlow: code that must runs as a separate program
(tensorflow_report, pair).
"""
