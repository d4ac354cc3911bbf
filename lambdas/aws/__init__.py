"""AWS, one module per service (EC2 has a folder): the only place that imports boto3 and that
knows AWS's error codes.

Every function asks or acts, and answers in core's words; none decides.
"""
