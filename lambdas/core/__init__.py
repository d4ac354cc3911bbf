"""The nouns and the decisions of Trainyard: no cloud, no clock, no environment, no chance.

Facts come in, a decision with its reason goes out, someone else acts. Start reading at job.py and
plan.py, then offers.py, placement.py and recovery.py.
"""
