"""Decisions about images: bakes, snapshots, dev hosts and retention."""
