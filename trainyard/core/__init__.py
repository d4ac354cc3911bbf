"""The models and the job file, which functions, client and command line share.

Pure: no cloud, no clock, no environment, no randomness. Start reading at model/job.py, then jobfile/check.py. The
decisions that are based on these models are in lambdas/core.
"""
