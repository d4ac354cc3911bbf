"""AWS, one module per service (EC2 and DynamoDB have folders): the only place that imports boto3 and that
knows AWS's error codes.

Every function asks or acts, and answers in core's words; none decides.
"""

import boto3 as boto3

# Here already, a few imports deep: from ten or so on, each call that compiles urllib3's expressions asks the kernel for
# memory and gives it back (CPython 3.11 keeps its frames in chunks): a fifth of a cold import.
