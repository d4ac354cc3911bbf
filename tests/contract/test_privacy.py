"""The local cloud serves its user's programs with its keys and names, but no web page and no other account."""

import http.client
import json
import stat
import subprocess
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials as Signing
from botocore.exceptions import ClientError

from localcloud.base import root_key
from tests.contract.conftest import ACCOUNT, REGION, Cloud, Credentials, allow, free_port

PAGE = "http://evil.example"
FOREIGN_HOSTS = (
    "evil.example", "evil.example:{port}", "localhost.evil.example:{port}", "127.0.0.1.nip.io:{port}",
    "0.0.0.0:{port}", "10.0.0.1:{port}", "[fd00::1]:{port}", "[::ffff:10.0.0.1]:{port}", "evillocalhost:{port}",
    "127.0.0.1@evil.example", "127.0.0.1:{port}:evil", "", "localhost evil", "trainyard.s3.amazonaws.com",
)  # fmt: skip
OWN_HOSTS = (
    "127.0.0.1:{port}", "127.0.0.1", "127.0.0.2:{port}", "localhost:{port}", "LocalHost:{port}", "localhost.:{port}",
    "localhost:1", "[::1]:{port}", "[::ffff:127.0.0.1]:{port}", "169.254.169.253:{port}",
)  # fmt: skip


def answer(
    cloud: Cloud, method: str, path: str, headers: Mapping[str, str] = {}, body: str = ""
) -> tuple[int, dict[str, str], str]:
    """Return the answer to a request with exactly these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", cloud.port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        connection.putheader(name, value)
    connection.endheaders(body.encode())
    reply = connection.getresponse()
    told = reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read().decode()
    connection.close()
    return told


def signed(
    cloud: Cloud, service: str, body: str, headers: Mapping[str, str], who: Credentials | None = None
) -> dict[str, str]:
    """Return the headers of a POST to a service, signed with these credentials."""
    given = who or cloud.root
    request = AWSRequest("POST", f"{cloud.endpoint}/", headers, body)
    SigV4Auth(Signing(given.key, given.secret, given.token), service, REGION).add_auth(request)
    return dict(request.headers.items())


def presigning(cloud: Cloud, endpoint: str, who: Credentials | None = None, **settings: Any) -> Any:
    """Return an S3 client that presigns like the CLI. boto3's default is the old signature."""
    given = who or cloud.root
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=given.key,
        aws_secret_access_key=given.secret,
        aws_session_token=given.token,
        config=Config(signature_version="s3v4", **settings),
    )


def list_tables(cloud: Cloud, headers: Mapping[str, str], who: Credentials | None = None) -> int:
    """Return the status of a correctly signed call with these headers."""
    target = {
        "X-Amz-Target": "DynamoDB_20120810.ListTables",
        "Content-Type": "application/x-amz-json-1.0",
    }
    return answer(cloud, "POST", "/", signed(cloud, "dynamodb", "{}", {**target, **headers}, who), "{}")[0]


@pytest.mark.parametrize("host", OWN_HOSTS)
def test_each_own_name_of_the_endpoint_works(cloud: Cloud, host: str) -> None:
    assert list_tables(cloud, {"Host": host.format(port=cloud.port)}) == 200


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_refused_though_the_request_is_signed(cloud: Cloud, host: str) -> None:
    assert list_tables(cloud, {"Host": host.format(port=cloud.port)}) in (400, 403)


def test_a_bucket_in_the_hosts_name_works(cloud: Cloud) -> None:
    s3, asked = cloud.client("s3"), {"Bucket": "named-in-the-host", "Key": "folder/a b"}
    s3.create_bucket(Bucket=asked["Bucket"])
    s3.put_object(**asked, Body=b"text")
    virtual = presigning(cloud, f"http://localhost:{cloud.port}", s3={"addressing_style": "virtual"})
    url = urllib.parse.urlsplit(virtual.generate_presigned_url("get_object", asked))
    assert url.netloc == f"named-in-the-host.localhost:{cloud.port}"
    assert answer(cloud, "GET", f"{url.path}?{url.query}", {"Host": url.netloc})[2] == "text"
    assert answer(cloud, "GET", url.path, {"Host": url.netloc})[0] == 403


@pytest.mark.parametrize(
    "origin", [PAGE, "null", "http://localhost:1", "https://127.0.0.1:{port}", "file://"]
)
def test_a_foreign_origin_is_refused_though_the_request_is_signed(cloud: Cloud, origin: str) -> None:
    assert list_tables(cloud, {"Origin": origin.format(port=cloud.port)}) == 403
    assert list_tables(cloud, {"Origin": f"http://127.0.0.1:{cloud.port}"}) == 200, "its own"


def test_a_preflight_is_refused_and_no_answer_has_a_cors_header(cloud: Cloud) -> None:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="open-to-pages")
    rule = {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"], "AllowedHeaders": ["*"]}
    s3.put_bucket_cors(Bucket="open-to-pages", CORSConfiguration={"CORSRules": [rule]})
    s3.put_object(Bucket="open-to-pages", Key="a", Body=b"text")
    asks = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "*"}
    for path in ("/", "/open-to-pages/a", "/_localcloud/status"):
        for headers in ({}, asks):
            status, told, _ = answer(cloud, "OPTIONS", path, headers)
            assert status == 403
            assert not [name for name in told if name.startswith("access-control")]
    url = urllib.parse.urlsplit(
        s3.generate_presigned_url("get_object", {"Bucket": "open-to-pages", "Key": "a"})
    )
    presigned = f"{url.path}?{url.query}"
    status, told, _ = answer(cloud, "GET", presigned)
    assert status == 200
    assert not [name for name in told if name.startswith("access-control")]
    assert answer(cloud, "GET", presigned, {"Origin": PAGE})[0] == 403


# -------------------------------------------------------------------------------- keys and signatures


@pytest.mark.parametrize(
    ("key", "secret"), [("test", "test"), (ACCOUNT, "test"), ("local", "local"), (None, "wrong")]
)
def test_keys_that_are_known_to_everybody_are_refused(cloud: Cloud, key: str | None, secret: str) -> None:
    who = Credentials(key or cloud.root.key, secret)
    for service, call in (
        ("s3", "list_buckets"), ("ec2", "describe_instances"), ("sts", "get_caller_identity"),
        ("iam", "list_roles"), ("lambda", "list_functions"), ("ssm", "describe_parameters"),
        ("dynamodb", "list_tables"), ("cloudformation", "list_stacks"), ("stepfunctions", "list_state_machines"),
    ):  # fmt: skip
        with pytest.raises(ClientError) as refused:
            getattr(cloud.client(service, who), call)()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 401, 403), service


UNSIGNED = (
    ("GET", "/"), ("GET", "/kept-private/a"), ("PUT", "/kept-private/b"), ("DELETE", "/kept-private/a"),
    ("GET", "/_localcloud/status"), ("POST", "/_localcloud/faults/clear"), ("GET", "/_localcloud/nothing"),
    ("GET", "/_ministack/health"), ("POST", "/_ministack/reset"), ("POST", "/_ministack/config"),
    ("GET", "/_ministack/sqs/messages"), ("GET", "/_ministack/lambda-code/x"), ("GET", "/_localstack/health"),
    ("GET", "/health"), ("POST", "/_ministack/eks-auth/a"), ("POST", "/_ministack/rds/iam-auth"),
    ("POST", "/oauth2/token"), ("GET", "/v2/_catalog"), ("GET", "/iceberg/v1/config"), ("POST", "/v1/apis/a/graphql"),
    ("GET", "/_aws/execute-api/a/b/"), ("GET", "/restapis/a/b/_user_request_/"), ("GET", "/_alb/a/"),
    ("GET", "/2015-03-31/functions"), ("POST", "/?Action=DescribeInstances"), ("POST", "/Execute"),
    ("POST", "/?Action=AssumeRoleWithWebIdentity&RoleArn=a&RoleSessionName=b&WebIdentityToken=c"),
)  # fmt: skip


@pytest.mark.parametrize(
    "authorization", ["", "Bearer a", "AWS4-HMAC-SHA256 a", "AWS a:b", "Basic dGVzdDp0ZXN0"]
)
def test_nothing_answers_a_request_that_is_not_signed(cloud: Cloud, authorization: str) -> None:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="kept-private")
    s3.put_object(Bucket="kept-private", Key="a", Body=b"text")
    s3.delete_public_access_block(Bucket="kept-private")
    public = [allow("s3:*", "arn:aws:s3:::kept-private/*") | {"Principal": "*"}]
    s3.put_bucket_policy(Bucket="kept-private", Policy=json.dumps({"Statement": public}))
    headers = {"Authorization": authorization} if authorization else {}
    for method, path in UNSIGNED:
        status, _, said = answer(cloud, method, path, headers)
        assert 400 <= status < 500, (method, path, status, said)
        assert status != 404, f"{method} {path} was looked for: {said}"
    assert [each["Key"] for each in s3.list_objects_v2(Bucket="kept-private")["Contents"]] == ["a"]


def test_a_presigned_address_is_good_for_what_was_signed_alone(cloud: Cloud) -> None:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="signed-for")
    for key in ("a", "b"):
        s3.put_object(Bucket="signed-for", Key=key, Body=key.encode())
    acting = cloud.acting_as(allow("s3:GetObject", "arn:aws:s3:::signed-for/*"))
    for who in (cloud.root, acting):
        url = presigning(cloud, cloud.endpoint, who).generate_presigned_url(
            "get_object", {"Bucket": "signed-for", "Key": "a"}, ExpiresIn=60
        )
        path = url.removeprefix(cloud.endpoint)
        assert answer(cloud, "GET", path)[2] == "a"
        for changed in (
            path.replace("/a?", "/b?"), path.replace("Expires=60", "Expires=999"), path[:-1] + "0" + path[-1],
            path.replace("&X-Amz-Signature=", "&X-Amz-Signature=0"), path.split("&X-Amz-Signature=")[0],
            path.replace(REGION, "eu-west-1"),
        ):  # fmt: skip
            assert answer(cloud, "GET", changed)[0] in (400, 403), changed
        older = cloud.client("s3", who).generate_presigned_url(
            "get_object", {"Bucket": "signed-for", "Key": "a"}
        )
        path_of_older = older.removeprefix(cloud.endpoint)
        assert answer(cloud, "GET", path_of_older)[2] == "a"
        assert answer(cloud, "GET", path_of_older.replace("/a?", "/b?"))[0] == 403
        assert answer(cloud, "DELETE", path)[0] == 403
        assert answer(cloud, "GET", path.replace("/signed-for/a", "/iceberg/v1/config"))[0] == 403


def test_a_body_that_was_not_signed_is_refused(cloud: Cloud) -> None:
    headers = signed(cloud, "dynamodb", "{}", {"X-Amz-Target": "DynamoDB_20120810.ListTables"})
    assert answer(cloud, "POST", "/", headers, "{}")[0] == 200
    assert answer(cloud, "POST", "/", headers, '{"Limit":1}')[0] in (400, 403)


def test_what_a_function_signs_with_follows_from_no_name(cloud: Cloud) -> None:
    """Test that a function's credentials are random. Its ARNs are not secret."""
    code = """
    import os

    def handler(event, context):
        return [os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]]
    """
    client, names = cloud.client("lambda"), [cloud.function(code) for _ in range(2)]
    configured = client.get_function_configuration(FunctionName=names[0])
    first = json.load(client.invoke(FunctionName=names[0])["Payload"])
    client.delete_function(FunctionName=names[0])
    assert json.load(client.invoke(FunctionName=names[1])["Payload"]) != first
    import hashlib

    digest = hashlib.sha256(f"{configured['FunctionArn']}:{configured['Role']}".encode()).hexdigest()
    assert first[1] != hashlib.sha256(f"secret:{digest}".encode()).hexdigest()


# ------------------------------------------------------------------------------------- the state folder


def test_the_key_is_generated_once_and_is_its_users_alone(tmp_path: Path) -> None:
    old, other = tmp_path / "old", tmp_path / "other"
    for folder in (old, other):
        folder.mkdir(mode=0o755)
    cloud = Cloud(old, free_port())
    try:
        cloud.up()
        given = cloud.root
        environment = cloud.command("env").stdout
        assert f"AWS_ACCESS_KEY_ID={given.key}" in environment
        assert f"AWS_SECRET_ACCESS_KEY={given.secret}" in environment
        assert stat.S_IMODE(old.stat().st_mode) == 0o700
        for name in (root_key.FILE, "server.log"):
            assert stat.S_IMODE((old / name).stat().st_mode) == 0o600
        cloud.client("s3").create_bucket(Bucket="kept")
        cloud.down()
        cloud.up()
        assert cloud.root == given
        assert [each["Name"] for each in cloud.client("s3").list_buckets()["Buckets"]] == ["kept"]
        cloud.down()
        (old / root_key.FILE).unlink()
        cloud.up()
        assert cloud.root != given
        with pytest.raises(ClientError, match="InvalidAccessKeyId"):
            cloud.client("s3", given).list_buckets()
    finally:
        cloud.command("down", check=False)
    assert root_key.load_key(other) != root_key.load_key(old)


def test_only_loopback_is_listened_on(cloud: Cloud) -> None:
    """Test the ports in this machine's network. Other ports are in a separate network."""
    found = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
    listening = [line.split()[3] for line in found.splitlines()]
    mine = [each for each in listening if each.endswith(f":{cloud.port}")]
    assert mine == [f"127.0.0.1:{cloud.port}"]


def admin(cloud: Cloud, **headers: Any) -> int:
    return answer(cloud, "GET", "/_localcloud/status", headers)[0]


def test_the_admin_interface_needs_the_same_key(cloud: Cloud) -> None:
    right = root_key.load_key(cloud.state).as_basic()
    assert admin(cloud, Authorization=right) == 200
    for wrong in ("", "Basic", right[:-4], right.lower(), "Bearer a"):
        assert admin(cloud, Authorization=wrong) == 403, wrong
    assert admin(cloud, Authorization=right, Origin=PAGE) == 403
    assert admin(cloud, Authorization=right, Host="evil.example") == 403
    assert answer(cloud, "POST", "/_localcloud/faults/refuse", {"Content-Type": "text/plain"}, "{}")[0] == 403


def test_a_channel_of_a_session_is_not_opened_by_a_page(cloud: Cloud) -> None:
    """Test the origin check of WebSockets, which bypass the application."""
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    path = "/v1/data-channel/nobody-0123456789abcdef"
    for more in ({"Origin": PAGE}, {"Origin": "null"}, {"Host": "evil.example"}):
        status, _, said = answer(cloud, "GET", path, {**upgrade, **more})
        assert (status, "Nothing was read or done" in said) == (403, True)
    status, _, said = answer(cloud, "GET", path, upgrade)
    assert "Nothing was read or done" not in said, "by a program it is looked for"
    assert 400 <= status < 500
