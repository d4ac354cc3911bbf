"""Images: what a bake, a snapshot, a launch from an image and the retiring of old ones decide."""
