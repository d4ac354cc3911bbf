"""The training loops: in step, and asynchronous with parameter servers."""
