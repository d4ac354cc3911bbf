"""Errors of AWS that pass within minutes: throttles, faults of a service, the network, expired credentials."""

from boto3.exceptions import RetriesExceededError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
)
from botocore.exceptions import ConnectionError as NoConnectionError

ANY_ERROR = (ClientError, BotoCoreError, RetriesExceededError)
"""All errors of AWS and of the network that boto3 raises. The last one is for a download that failed several times."""
CODES = frozenset(
    {
        "BandwidthLimitExceeded", "ExpiredToken", "ExpiredTokenException", "InternalError", "InternalFailure",
        "InternalServerError", "InvalidSignatureException", "KMS.DependencyTimeoutException",
        "KMS.KMSInternalException", "KMS.ThrottlingException", "OperationAborted", "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException", "RequestExpired", "RequestLimitExceeded", "RequestThrottled",
        "RequestThrottledException", "RequestTimeout", "RequestTimeoutException", "RequestTimeTooSkewed",
        "ServiceUnavailable", "ServiceUnavailableException", "SignatureDoesNotMatch", "SlowDown", "Throttling",
        "ThrottledException", "ThrottlingException", "TokenRefreshRequired", "TooManyRequestsException", "Unavailable",
        "429", "500", "502", "503", "504",
    }
    | {"NoCredentialProviders", "RequestError", "ResponseTimeout", "SerializationError"}
)  # fmt: skip
"""Error codes of AWS's services, and of s5cmd for network errors and missing credentials. The signature of a host is
refused while its clock is more than five minutes off."""
NETWORK = (
    HTTPClientError,
    NoConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    CredentialRetrievalError,
    RetriesExceededError,
)


def is_passing_code(code: str) -> bool:
    """Return True for an error code after which the same call may succeed minutes later."""
    return code in CODES


def is_passing_error(error: BaseException) -> bool:
    """Return True for an error of boto3 after which the same call may succeed minutes later."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return is_passing_code(error.response["Error"]["Code"]) or status >= 500
    return isinstance(error, NETWORK)
