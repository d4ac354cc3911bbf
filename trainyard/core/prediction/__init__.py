"""Predictions: check requests, run a model with LiteRT, and compare answers."""
