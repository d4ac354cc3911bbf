"""Predictions: requests and answers of TensorFlow Serving and of Open Inference v2, and models in LiteRT."""
