"""EC2: what can be had, fleets, instances, images."""
