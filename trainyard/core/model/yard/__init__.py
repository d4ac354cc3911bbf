"""The yard: its policy, its metrics, the buckets beside its own."""
