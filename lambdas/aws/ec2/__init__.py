"""EC2: offerings, fleets, instances and images."""
