"""Predictions: run a model with LiteRT, and compare answers."""
