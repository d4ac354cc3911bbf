"""The parts of one pass of patrol."""
