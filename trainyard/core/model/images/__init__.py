"""Images: their tags, how a host becomes an image, and the releases of TensorFlow that they can have."""
