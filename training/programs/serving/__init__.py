"""A server for one version of a model: the model in TensorFlow, gRPC, REST, and the time without predictions."""
