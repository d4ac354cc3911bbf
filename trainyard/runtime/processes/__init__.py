"""The processes that train together: who is who, how they form a cluster, how they leave it."""
