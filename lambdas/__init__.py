"""The control plane: pure decisions (core), access to AWS (aws), shared steps (steps), and one file per function
(workflows)."""
