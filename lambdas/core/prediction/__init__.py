"""Predictions over HTTP: routes, requests and answers of TensorFlow Serving and of Open Inference v2."""
