"""Predictions over HTTP: routes and answers of TensorFlow Serving and of Open Inference v2."""
