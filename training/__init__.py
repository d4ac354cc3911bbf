"""Code that runs on hosts: the agent (host), the bake of their image (baking), the shipped programs (programs).

Only these have the package on their path. Other programs import `trainyard`.
"""
