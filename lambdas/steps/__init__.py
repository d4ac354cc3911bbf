"""What several functions do alike: gather, decide by the core, act."""
