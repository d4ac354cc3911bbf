"""What runs on the hosts: the agent (host), what makes their image (baking), the programs that are shipped (programs).

It is on the path of these alone: what other programs can import of ours is `trainyard`.
"""
