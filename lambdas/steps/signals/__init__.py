"""What a signal means, by who sent it."""
