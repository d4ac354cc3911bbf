"""The parts of a pass of patrol."""
