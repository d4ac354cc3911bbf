"""The yard: its policy, its metrics, and the buckets beside its own."""
