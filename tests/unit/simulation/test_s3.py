"""The simulated S3 through its API."""

import base64
import hashlib
from typing import Any

import pytest

from simulation.aws.endpoint.api import Caller, Check, ServiceError
from simulation.aws.s3 import S3
from simulation.world.world import World

ME = Caller("me", "root")


@pytest.fixture
def heard() -> list[tuple[Any, ...]]:
    return []


@pytest.fixture
def s3(heard: list[tuple[Any, ...]]) -> S3:
    s3 = S3(World(1), lambda *about: heard.append(about))
    s3.create_bucket("b")
    return s3


def put(s3: S3, key: str, body: bytes | str = b"x", **more: Any) -> dict[str, Any]:
    return s3.put_object(ME, {"Bucket": "b", "Key": key, "Body": body, **more})


def get(s3: S3, key: str, **more: Any) -> dict[str, Any]:
    return s3.get_object(ME, {"Bucket": "b", "Key": key, **more})


def keys(s3: S3, **more: Any) -> list[list[str]]:
    """Return the keys and groups of each page."""
    pages: list[list[str]] = []
    token: dict[str, str] = {}
    while True:
        answer = s3.list_objects_v2(ME, {"Bucket": "b", **more, **token})
        listed = [each["Key"] for each in answer.get("Contents", [])]
        pages.append(sorted([*listed, *(each["Prefix"] for each in answer.get("CommonPrefixes", []))]))
        if not answer["IsTruncated"]:
            return pages
        token = {"ContinuationToken": answer["NextContinuationToken"]}


def refused(do: Any) -> tuple[str, int]:
    with pytest.raises(ServiceError) as caught:
        do()
    return caught.value.code, caught.value.status


def test_a_written_object_is_read_and_announced(s3: S3, heard: list[tuple[Any, ...]]) -> None:
    written = put(s3, "jobs/a.json", "{}", ContentType="application/json")
    read = get(s3, "jobs/a.json")
    assert read["Body"] == b"{}"
    assert (read["ETag"], read["VersionId"]) == (written["ETag"], written["VersionId"])
    etag = "99914b932bd37a50b983c5e7c90ae93b"
    assert written["ETag"] == f'"{etag}"'
    assert heard == [("Object Created", "b", "jobs/a.json", written["VersionId"], 2, etag)]


def test_one_of_two_writers_wins(s3: S3) -> None:
    first = put(s3, "a", b"1", IfNoneMatch="*")
    assert refused(lambda: put(s3, "a", b"2", IfNoneMatch="*")) == ("PreconditionFailed", 412)
    assert refused(lambda: put(s3, "a", b"2", IfMatch='"other"')) == ("PreconditionFailed", 412)
    assert refused(lambda: put(s3, "none", b"2", IfMatch=first["ETag"])) == ("NoSuchKey", 404)
    put(s3, "a", b"2", IfMatch=first["ETag"])
    assert get(s3, "a")["Body"] == b"2"
    s3.conflicts = lambda caller, key: key == "c"
    assert refused(lambda: put(s3, "c", IfNoneMatch="*")) == ("ConditionalRequestConflict", 409)
    put(s3, "c")


def test_old_versions_stay_and_a_deletion_is_one_too(s3: S3) -> None:
    old = put(s3, "a", b"old")["VersionId"]
    put(s3, "a", b"new")
    marker = s3.delete_object(ME, {"Bucket": "b", "Key": "a"})
    assert marker["DeleteMarker"]
    assert refused(lambda: get(s3, "a")) == ("NoSuchKey", 404)
    assert refused(lambda: get(s3, "a", VersionId=marker["VersionId"])) == ("MethodNotAllowed", 405)
    assert refused(lambda: get(s3, "a", VersionId="none")) == ("NoSuchVersion", 404)
    assert get(s3, "a", VersionId=old)["Body"] == b"old"
    assert keys(s3) == [[]]
    s3.delete_object(ME, {"Bucket": "b", "Key": "a", "VersionId": marker["VersionId"]})
    assert get(s3, "a")["Body"] == b"new"
    assert keys(s3) == [["a"]]


@pytest.mark.parametrize(
    ("asked", "body", "range_"),
    [
        ("bytes=0-2", b"abc", "bytes 0-2/5"),
        ("bytes=3-99", b"de", "bytes 3-4/5"),
        ("bytes=2-", b"cde", "bytes 2-4/5"),
        ("bytes=-2", b"de", "bytes 3-4/5"),
    ],
)
def test_part_of_an_object(s3: S3, asked: str, body: bytes, range_: str) -> None:
    put(s3, "a", b"abcde")
    answer = get(s3, "a", Range=asked)
    assert (answer["Body"], answer["ContentRange"], answer["ContentLength"]) == (body, range_, len(body))


def test_an_empty_object_has_no_first_byte(s3: S3) -> None:
    put(s3, "a", b"")
    assert refused(lambda: get(s3, "a", Range="bytes=0-9")) == ("InvalidRange", 416)
    assert get(s3, "a")["Body"] == b""


def test_head_has_no_words_to_refuse_with(s3: S3) -> None:
    put(s3, "a", b"abc")
    assert s3.head_object(ME, {"Bucket": "b", "Key": "a"})["ContentLength"] == 3
    assert refused(lambda: s3.head_object(ME, {"Bucket": "b", "Key": "x"})) == ("404", 404)


def test_lists_in_order_and_in_pages(s3: S3) -> None:
    for key in ("runs/2/b", "runs/1/a", "runs/1/c/d", "jobs/x", "runs0"):
        put(s3, key)
    assert keys(s3) == [["jobs/x", "runs/1/a", "runs/1/c/d", "runs/2/b", "runs0"]]
    assert keys(s3, Prefix="runs/") == [["runs/1/a", "runs/1/c/d", "runs/2/b"]]
    assert keys(s3, Prefix="runs/", Delimiter="/") == [["runs/1/", "runs/2/"]]
    assert keys(s3, Delimiter="/", MaxKeys=1) == [["jobs/"], ["runs/"], ["runs0"]]
    assert keys(s3, StartAfter="runs/1/a") == [["runs/1/c/d", "runs/2/b", "runs0"]]
    assert keys(s3, Prefix="none/") == [[]]
    s3.page_size = 2
    assert keys(s3, Prefix="runs/") == [["runs/1/a", "runs/1/c/d"], ["runs/2/b"]]


def test_a_thousand_keys_are_a_page(s3: S3) -> None:
    for number in range(1001):
        put(s3, f"{number:04}")
    assert [len(page) for page in keys(s3, MaxKeys=5000)] == [1000, 1]


def test_keys_are_encoded_as_boto3_requests(s3: S3) -> None:
    put(s3, "a b/é")
    answer = s3.list_objects_v2(ME, {"Bucket": "b", "Prefix": "a b", "EncodingType": "url"})
    assert (answer["Contents"][0]["Key"], answer["Prefix"]) == ("a%20b/%C3%A9", "a%20b")


def test_many_are_deleted_as_far_as_one_may(s3: S3) -> None:
    put(s3, "a")
    put(s3, "b")
    s3.may = lambda caller, check: not check.resource.endswith("/b")
    asked = {"Objects": [{"Key": "a"}, {"Key": "b"}], "Quiet": True}
    answer = s3.delete_objects(ME, {"Bucket": "b", "Delete": asked})
    assert answer == {"Errors": [{"Key": "b", "Code": "AccessDenied", "Message": "Access Denied"}]}
    assert keys(s3) == [["b"]]


def test_a_copy_is_an_object_of_its_own(s3: S3, heard: list[tuple[Any, ...]]) -> None:
    put(s3, "a", b"1")
    asked = {"Bucket": "b", "Key": "c", "CopySource": {"Bucket": "b", "Key": "a"}}
    made = s3.copy_object(ME, asked | {"ChecksumAlgorithm": "SHA256"})["CopyObjectResult"]
    assert base64.b64decode(made["ChecksumSHA256"]) == hashlib.sha256(b"1").digest()
    put(s3, "a", b"2")
    assert get(s3, "c")["Body"] == b"1"
    assert [about[2] for about in heard] == ["a", "c", "a"]


def test_without_permission_to_list_a_missing_object_is_denied(s3: S3) -> None:
    def actions(key: str) -> list[tuple[str, str]]:
        found = s3.checks(ME, "get_object", {"Bucket": "b", "Key": key})
        return [(check.action, check.resource) for check in found]

    put(s3, "a")
    assert actions("a") == [("s3:GetObject", "arn:aws:s3:::b/a")]
    assert actions("x") == [("s3:GetObject", "arn:aws:s3:::b/x"), ("s3:ListBucket", "arn:aws:s3:::b")]


def test_a_list_is_checked_for_its_prefix(s3: S3) -> None:
    [check] = s3.checks(ME, "list_objects_v2", {"Bucket": "b", "Prefix": "runs/"})
    assert isinstance(check, Check)
    assert (check.action, check.context["s3:prefix"]) == ("s3:ListBucket", "runs/")


def test_unsupported_parameters_are_refused(s3: S3) -> None:
    assert refused(lambda: put(s3, "a", Tagging="a=b"))[0] == "NotSimulated"
    assert refused(lambda: get(s3, "a", PartNumber=1))[0] == "NotSimulated"
    assert refused(lambda: s3.get_object(ME, {"Bucket": "other", "Key": "a"})) == ("NoSuchBucket", 404)
