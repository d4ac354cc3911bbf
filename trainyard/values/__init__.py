"""Values that are read and written: the keys of files, JSON between states, and lazily made dataclasses."""
