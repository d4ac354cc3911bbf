"""Programs with minimal work of their own, so that the measurement shows Trainyard."""
