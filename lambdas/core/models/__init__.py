"""Decisions about models, their versions and aliases. Pure."""
