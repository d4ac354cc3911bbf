"""What runs inside a host: its init and the commands that talk to it. Standard library only.

boot.py copies this package into the host, where nothing else of the local cloud is.
"""
