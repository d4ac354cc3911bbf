"""The host agent: boot, fetch, start the program, watch it, carry its results to the bucket, leave in time.

Read in this order: agent (the story), attempt (one program's life), then what they use.
It imports no TensorFlow and runs whatever program the job names.
"""
