"""The yard: its policy, its metrics, and the other buckets that it may read."""
