"""The control plane: pure decisions (core), AWS (aws), one file a function (workflows)."""
