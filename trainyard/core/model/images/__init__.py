"""Images: what one is, how a host becomes one, which TensorFlow it may carry."""
