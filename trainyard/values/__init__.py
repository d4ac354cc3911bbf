"""How values are read and written: the keys of files, JSON between states, and dataclasses made at their first use."""
