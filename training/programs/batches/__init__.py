"""Batches of predictions: files with rows, the model that answers them, and the answers in the bucket."""
