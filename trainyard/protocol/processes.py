"""The exit code and the output line of trainyard.runtime that the agent of a host recognizes."""

RESTART = 75
"""Exit code EX_TEMPFAIL: the program has saved a checkpoint or lost a peer, and can be started again."""
FORMING = "[trainyard.runtime] the cluster is forming"
"""After this line, SIGALRM comes from the runtime: it ends a process that lost a peer."""
