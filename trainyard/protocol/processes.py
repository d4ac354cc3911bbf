"""What the agent of a host reads from the end of a program that uses trainyard.runtime."""

RESTART = 75
"""Exit code EX_TEMPFAIL: start me again; I have checkpointed, or a peer is gone."""
FORMING = "[trainyard.runtime] the cluster is forming"
"""A line by which the agent knows that SIGALRM was the runtime's own: it ends a process that lost a peer."""
