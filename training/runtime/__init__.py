"""What training programs use: cluster, reproducible data, elastic loop, checkpoints, metrics, export.

All of it also runs without Trainyard: on a laptop there is one worker, and results lie in ./training-output.
"""
