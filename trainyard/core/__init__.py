"""What functions, client and command all know: the models and the job file. Pure.

No cloud, no clock, no environment, no chance. Start reading at model/job.py, then jobfile/check.py; the decisions that
are made of these are in lambdas/core.
"""
