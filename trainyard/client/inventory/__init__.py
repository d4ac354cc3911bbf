"""The hosts, images and money of a yard."""
