"""Programs that cost next to nothing, so that what is measured is Trainyard."""
