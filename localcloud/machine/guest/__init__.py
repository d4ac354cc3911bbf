"""Programs inside a host: its init and the commands that talk to it. Standard library only.

boot.py copies this package into the host, where no other module of the local cloud exists.
"""
