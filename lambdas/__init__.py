"""The control plane: pure decisions (core), AWS (aws), one handler per function (handlers)."""
