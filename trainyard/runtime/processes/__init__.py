"""The processes of a cluster: their places, how they form the cluster, and how they exit."""
