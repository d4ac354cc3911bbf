"""Access to AWS, with one module or folder per service. Only this package imports boto3 and reads AWS's error codes.

Every function reads or acts, and returns the types of core. No function here decides."""

import boto3 as boto3


# Import boto3 here, at a shallow depth. Below about ten nested imports, CPython 3.11 allocates and frees a chunk of
# frames for each regular expression that urllib3 compiles, which costs a fifth of a cold import.
