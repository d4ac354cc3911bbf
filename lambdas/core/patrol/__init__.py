"""Patrol's decisions about hosts, and the words for them."""
