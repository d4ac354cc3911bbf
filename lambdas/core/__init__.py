"""The decisions of Trainyard: no cloud, no clock, no environment, no chance.

Facts come in, a decision with its reason goes out, other packages act. Start reading at trainyard/core/model/job.py
and capacity/plan.py, then capacity/candidates.py, capacity/placement.py and run/recovery.py.
"""
