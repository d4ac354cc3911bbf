"""Objects in S3: their keys, compared to the character, and the checksums of copies."""

import base64
import hashlib
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import Cloud, allow


@pytest.fixture
def bucket(cloud: Cloud) -> str:
    name = f"names-{uuid.uuid4().hex[:12]}"
    cloud.client("s3").create_bucket(Bucket=name)
    return name


def code(call: Any, **request: Any) -> str:
    try:
        call(**request)
    except ClientError as refused:
        return str(refused.response["Error"]["Code"])
    return "done"


@pytest.mark.parametrize(
    "key", ["mine/a\nb", "mine/\n", "mine/a\n", "mine/\r\n", "mine//a", "mine/a//b/", "mine/../other"]
)
def test_a_wildcard_matches_each_character_of_a_key(cloud: Cloud, bucket: str, key: str) -> None:
    s3 = cloud.client("s3", cloud.acting_as(allow("s3:*Object", f"arn:aws:s3:::{bucket}/mine/*")))
    assert code(s3.put_object, Bucket=bucket, Key=key, Body=b"x") == "done"
    assert code(s3.get_object, Bucket=bucket, Key=key) == "done"
    listed = cloud.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in listed] == [key]
    assert code(s3.delete_object, Bucket=bucket, Key=key) == "done"


@pytest.mark.parametrize(
    "key",
    [
        "jobs//by/mallory/a",
        "/jobs/by/mallory/a",
        "jobs/by//mallory/a",
        "jobs/by/mallory",
        "jobs/by/mallory/a\n",
        "Jobs/by/mallory/a",
    ],
)
def test_a_key_that_only_looks_like_the_allowed_one_is_refused(cloud: Cloud, bucket: str, key: str) -> None:
    exact = f"arn:aws:s3:::{bucket}/jobs/by/mallory/a"
    s3 = cloud.client("s3", cloud.acting_as(allow("s3:*Object", [exact])))
    assert code(s3.put_object, Bucket=bucket, Key="jobs/by/mallory/a", Body=b"x") == "done"
    for call, more in ((s3.put_object, {"Body": b"x"}), (s3.get_object, {}), (s3.delete_object, {})):
        assert code(call, Bucket=bucket, Key=key, **more) == "AccessDenied"


def test_a_denial_is_of_each_character_too(cloud: Cloud, bucket: str) -> None:
    denial = {"Effect": "Deny", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}/closed/*"}
    s3 = cloud.client("s3", cloud.acting_as(allow("s3:*"), denial))
    for key in ("closed/a", "closed/a\nb", "closed/\n", "closed//a"):
        assert code(s3.put_object, Bucket=bucket, Key=key, Body=b"x") == "AccessDenied"
    assert code(s3.put_object, Bucket=bucket, Key="/closed/a", Body=b"x") == "done"


@pytest.mark.parametrize(("character", "count"), [("a", 1024), ("\u00fc", 512), ("\U0001f600", 256)])
def test_a_key_has_1024_bytes_at_most(cloud: Cloud, bucket: str, character: str, count: int) -> None:
    s3 = cloud.client("s3")
    longest = character * count
    assert code(s3.put_object, Bucket=bucket, Key=longest, Body=b"x") == "done"
    assert code(s3.get_object, Bucket=bucket, Key=longest) == "done"
    for call in (s3.put_object, s3.get_object, s3.delete_object, s3.create_multipart_upload):
        assert code(call, Bucket=bucket, Key=longest + "a") == "KeyTooLongError"


def test_a_list_of_keys_that_is_no_xml_is_malformed_for_each_caller(cloud: Cloud, bucket: str) -> None:
    may_delete = allow("s3:DeleteObject", f"arn:aws:s3:::{bucket}/mine/*")
    for s3 in (cloud.client("s3"), cloud.client("s3", cloud.acting_as(may_delete))):
        named = {"Objects": [{"Key": "mine/a\x01b"}]}
        assert code(s3.delete_objects, Bucket=bucket, Delete=named) == "MalformedXML"
        assert code(s3.delete_objects, Bucket=bucket, Delete={"Objects": [{"Key": "mine/a"}]}) == "done"


def digest(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


def test_a_copy_has_the_checksum_of_the_algorithm_that_its_request_names(cloud: Cloud, bucket: str) -> None:
    s3, body = cloud.client("s3"), b"weights"
    s3.put_object(Bucket=bucket, Key="a", Body=body, ChecksumAlgorithm="CRC32")

    def copy(source: str, target: str, **more: str) -> dict[str, Any]:
        found = {"Bucket": bucket, "Key": source}
        answer = s3.copy_object(Bucket=bucket, Key=target, CopySource=found, **more)["CopyObjectResult"]
        return {name: value for name, value in answer.items() if name.startswith("Checksum")}

    crc = s3.head_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")["ChecksumCRC32"]
    assert copy("a", "b") == {"ChecksumCRC32": crc, "ChecksumType": "FULL_OBJECT"}
    of_b = {"ChecksumSHA256": digest(body), "ChecksumType": "FULL_OBJECT"}
    assert copy("b", "c", ChecksumAlgorithm="SHA256") == of_b
    kept = s3.head_object(Bucket=bucket, Key="c", ChecksumMode="ENABLED")
    assert (kept["ChecksumSHA256"], "ChecksumCRC32" in kept) == (digest(body), False)
