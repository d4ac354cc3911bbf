"""The host agent: boot, fetch, start the program, watch it, upload its results, and leave in time.

Read in this order: agent (the outline), attempt (one program's life), then the modules that they use.
The agent does not import TensorFlow, and runs any program that the job names.
"""
