"""EventBridge: the events that services send, and whom rules hand them to under which role."""
