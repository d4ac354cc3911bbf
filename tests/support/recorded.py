"""AWS's answers to patrol's calls, generated in this process for any number of hosts.

botocore builds the requests and parses the answers, so counts, durations and memory are realistic except for the
network. The bench and the tests of the handler use this.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import boto3
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.awsrequest import AWSResponse

from lambdas.aws import clients
from lambdas.aws.dynamodb.serialization import pack_row
from localcloud.base.price_list import PriceList
from localcloud.base.settings import Settings
from simulation.aws.dynamodb.expressions import condition, update

NAMESPACE = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'
EC2_PAGE, STATES_PAGE = 1000, 1000
PACK, UNPACK = TypeSerializer(), TypeDeserializer()


@dataclass(frozen=True)
class LambdaContext:
    """The attributes of Lambda's context that handlers read."""

    function_name: str = "trainyard-function"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:trainyard-function"
    memory_limit_in_mb: str = "512"


CONTEXT = LambdaContext()


@dataclass
class Host:
    """One instance.

    `share` returns the utilization of the busiest GPU in a minute, in percent, or None if it is unknown. `processors`
    returns the same for all processors, and `use` the value that a dev host's agent publishes.
    """

    id: str
    type: str = "g5.xlarge"
    spot: bool = False
    state: str = "running"
    launched: datetime = datetime(2026, 11, 1, tzinfo=UTC)
    changed: datetime | None = None
    shutdown: str = "terminate"
    tags: dict[str, str] = field(default_factory=dict)
    share: Callable[[datetime], float | None] = lambda _: 0.0
    processors: Callable[[datetime], float | None] = lambda _: 1.0
    use: Callable[[datetime], float | None] = lambda _: 0.0


CREDENTIALS_END = "2026-11-20T13:00:00Z"


@dataclass
class Recorded:
    """An account.

    `running` has the names of executions by state machine, `over` the ends of other executions by ARN, `sessions` the
    SSM documents of the sessions on hosts. `imaged` has the pending images by host, and `images` the states of others.
    `refuses` names the hosts that EC2 does not stop or terminate, with reasons, and `broken` the failing calls with
    error codes. `lost_answers` counts the next writes whose answers are lost, `shown_late` how often EC2 does not find
    an image, and `policy_room` limits the length of a policy for STS. SNS, Lambda and Step Functions record requests.
    """

    hosts: dict[str, Host]
    running: dict[str, list[str]] = field(default_factory=dict)
    over: dict[str, datetime] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    commanded: set[str] = field(default_factory=set)
    imaged: dict[str, str] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)
    refuses: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    table: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    notices: list[tuple[str, str]] = field(default_factory=list)
    invoked: list[tuple[str, Any]] = field(default_factory=list)
    started: list[tuple[str, Any]] = field(default_factory=list)
    answered: list[tuple[str, str, Any]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    metrics_asked: int = 0
    tokens: set[str] = field(default_factory=set)
    lost_answers: int = 0
    shown_late: int = 0
    assumed: list[dict[str, str]] = field(default_factory=list)
    policy_room: int = 2048

    def answer(self, event_name: str, request: Any, **_more: Any) -> AWSResponse:
        """Answer a request in place of the network."""
        _, service, operation = event_name.split(".")
        self.calls[f"{service}:{operation}"] += 1
        if operation in self.broken:
            return _raise_failure(service, self.broken[operation])
        body: Any = getattr(self, f"_{service}")(operation, request)
        return body if isinstance(body, AWSResponse) else _response(request.url, body)

    def _sts(self, operation: str, request: Any) -> str | AWSResponse:
        arguments = _form(request.body)
        self.assumed.append(arguments)
        if len(arguments["Policy"]) > self.policy_room:
            return _raise_failure("sts", "PackedPolicyTooLarge")
        given = "<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
        until = f"<Expiration>{CREDENTIALS_END}</Expiration>"
        return (
            f"<{operation}Response><AssumeRoleResult><Credentials>{given}{until}</Credentials></AssumeRoleResult>"
            f"</{operation}Response>"
        )

    # ------------------------------------------------------------------------------------------------------- EC2

    def _ec2(self, operation: str, request: Any) -> str | AWSResponse:
        arguments = _form(request.body)
        match operation:
            case "DescribeInstances":
                return self._describe(int(arguments.get("NextToken", "0")), _filters(arguments))
            case "DescribeImages":
                images = "".join(
                    f"<item><imageId>{image}</imageId><imageState>{state}</imageState><name>{image}</name>"
                    "<architecture>x86_64</architecture></item>"
                    for image, state in self.images.items()
                ) + "".join(
                    f"<item><imageId>{image}</imageId><tagSet><item><key>trainyard:host</key><value>{host}</value></item>"
                    "</tagSet></item>"
                    for host, image in self.imaged.items()
                )
                return f"<DescribeImagesResponse {NAMESPACE}><imagesSet>{images}</imagesSet></DescribeImagesResponse>"
            case "CreateTags" if self._is_denied(_read_numbered(arguments, "ResourceId")):
                return _raise_failure("ec2", "UnauthorizedOperation")
            case "DeregisterImage":
                if self.shown_late:
                    self.shown_late -= 1
                    return _raise_failure("ec2", "InvalidAMIID.NotFound", arguments["ImageId"])
                self.images.pop(arguments["ImageId"], None)
                return f"<DeregisterImageResponse {NAMESPACE}><return>true</return></DeregisterImageResponse>"
            case "CreateTags":
                numbers = [name.split(".")[1] for name in arguments if re.fullmatch(r"Tag\.\d+\.Key", name)]
                for host in _read_numbered(arguments, "ResourceId"):
                    for n in numbers:
                        self.hosts[host].tags[arguments[f"Tag.{n}.Key"]] = arguments.get(f"Tag.{n}.Value", "")
                return f"<CreateTagsResponse {NAMESPACE}><return>true</return></CreateTagsResponse>"
            case "ModifyInstanceAttribute":
                self.hosts[arguments["InstanceId"]].shutdown = arguments[
                    "InstanceInitiatedShutdownBehavior.Value"
                ]
                return f"<{operation}Response {NAMESPACE}><return>true</return></{operation}Response>"
            case "StopInstances" | "TerminateInstances":
                return self._end_hosts(operation, _read_numbered(arguments, "InstanceId"))
        raise NotImplementedError(operation)

    def _end_hosts(self, operation: str, ids: list[str]) -> str | AWSResponse:
        if self._is_denied(ids):
            return _raise_failure("ec2", "UnauthorizedOperation")
        refused = [host for host in ids if host in self.refuses]
        if refused:
            return _raise_failure("ec2", self.refuses[refused[0]], refused[0])
        for host in ids:
            self.hosts[host].state = "stopping" if operation == "StopInstances" else "shutting-down"
        return f"<{operation}Response {NAMESPACE}><instancesSet/></{operation}Response>"

    def _is_denied(self, ids: list[str]) -> bool:
        """Return True for a call on a forgotten host: without the yard's tag, EC2 denies the whole call."""
        return any(host not in self.hosts for host in ids)

    def _describe(self, first: int, filters: Mapping[str, list[str]]) -> str:
        ids, states = filters.get("instance-id"), filters.get("instance-state-name")
        run = filters.get("tag:trainyard:run")
        hosts = [
            host
            for host in self.hosts.values()
            if (ids is None or host.id in ids)
            and (states is None or host.state in states)
            and (run is None or host.tags.get("trainyard:run") in run)
        ]
        page = "".join(_instance(host) for host in hosts[first : first + EC2_PAGE])
        more = first + EC2_PAGE
        token = f"<nextToken>{more}</nextToken>" if more < len(hosts) else ""
        head = f"<DescribeInstancesResponse {NAMESPACE}><reservationSet><item><instancesSet>"
        return f"{head}{page}</instancesSet></item></reservationSet>{token}</DescribeInstancesResponse>"

    # -------------------------------------------------------------------------------------------- other services

    def _sfn(self, operation: str, request: Any) -> Any:
        arguments = json.loads(request.body)
        if operation.startswith("SendTask"):
            self.answered.append((arguments["taskToken"], operation.removeprefix("SendTask"), arguments))
            return {}
        if operation == "DescribeExecution":
            return self._execution(arguments["executionArn"])
        machine = arguments["stateMachineArn"]
        if operation == "StartExecution":
            self.started.append((arguments["name"], json.loads(arguments["input"])))
            self.running.setdefault(machine, []).append(arguments["name"])
            return {"executionArn": f"{machine}:{arguments['name']}", "startDate": 0}
        names, first = self.running.get(machine, []), int(arguments.get("nextToken", "0"))
        found = [
            {
                "name": name,
                "status": "RUNNING",
                "executionArn": name,
                "stateMachineArn": machine,
                "startDate": 0,
            }
            for name in names[first : first + STATES_PAGE]
        ]
        more = first + STATES_PAGE
        return {"executions": found, **({"nextToken": str(more)} if more < len(names) else {})}

    def _execution(self, arn: str) -> Any:
        name = arn.rpartition(":")[2]
        arguments = {"executionArn": arn, "stateMachineArn": "", "name": name, "startDate": 0}
        if any(name in names for names in self.running.values()):
            return {**arguments, "status": "RUNNING"}
        if arn in self.over:
            return {**arguments, "status": "ABORTED", "stopDate": self.over[arn].timestamp()}
        return _raise_failure("sfn", "ExecutionDoesNotExist")

    def _ssm(self, operation: str, request: Any) -> Any:
        arguments = json.loads(request.body)
        if operation == "DescribeInstanceInformation":
            return {"InstanceInformationList": []}
        if operation == "DescribeSessions":
            return {
                "Sessions": [
                    {"SessionId": f"s-{host}", "Target": host, "DocumentName": document}
                    for host, document in sorted(self.sessions.items())
                ]
            }
        if operation == "SendCommand":
            return _raise_failure("ssm", "InvalidInstanceId")
        hosts = sorted(self.commanded) if arguments["Filters"][0]["value"] == "InProgress" else []
        return {"CommandInvocations": [{"InstanceId": host, "Status": "InProgress"} for host in hosts]}

    def _cloudwatch(self, _operation: str, request: Any) -> Any:
        arguments = json.loads(request.body)
        begin, end = (datetime.fromtimestamp(arguments[key], UTC) for key in ("StartTime", "EndTime"))
        minutes = [begin + timedelta(minutes=n) for n in range(int((end - begin).total_seconds() // 60))]
        self.metrics_asked += len(arguments["MetricDataQueries"])
        results = []
        for query in arguments["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            host = self.hosts[metric["Dimensions"][0]["Value"]]
            reading = {"CPUUtilization": host.processors, "InUse": host.use}.get(
                metric["MetricName"], host.share
            )
            known = [(at, share) for at in minutes if (share := reading(at)) is not None]
            results.append(
                {
                    "Id": query["Id"],
                    "StatusCode": "Complete",
                    "Timestamps": [at.timestamp() for at, _ in known],
                    "Values": [share for _, share in known],
                }
            )
        return {"MetricDataResults": results}

    def _dynamodb(self, operation: str, request: Any) -> Any:
        arguments = json.loads(request.body)
        match operation:
            case "PutItem":
                assert "ConditionExpression" not in arguments, "botocore's retry would meet its own write"
                self._put(arguments["Item"])
                return {}
            case "TransactWriteItems":
                return self._write_transaction(arguments)
            case "GetItem":
                found = self.table.get((arguments["Key"]["pk"]["S"], arguments["Key"]["sk"]["S"]))
                return {"Item": _pack(found)} if found else {}
            case "BatchGetItem":
                ((name, asked),) = arguments["RequestItems"].items()
                keys = [(key["pk"]["S"], key["sk"]["S"]) for key in asked["Keys"]]
                return {"Responses": {name: [_pack(self.table[key]) for key in keys if key in self.table]}}
            case "Query":
                return {"Items": [_pack(row) for row in self._query(arguments)]}
        raise NotImplementedError(operation)

    def _query(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        pk, *edge = [value["S"] for value in arguments["ExpressionAttributeValues"].values()]
        rows = [row for (its_pk, _), row in sorted(self.table.items()) if its_pk == pk]
        return [row for row in rows if not edge or row["sk"].startswith(edge[0])]

    def _write_transaction(self, arguments: Mapping[str, Any]) -> Any:
        """Write a transaction, unless its client token was used before."""
        if arguments["ClientRequestToken"] in self.tokens:
            return {}
        writes = [(act, each) for item in arguments["TransactItems"] for act, each in item.items()]
        hold = [self._holds(each) for _, each in writes]
        if not all(hold):
            return _cancelled_error(hold)
        for act, each in writes:
            self._write(act, each)
        self.tokens.add(arguments["ClientRequestToken"])
        if self.lost_answers:
            self.lost_answers -= 1
            return _raise_failure("dynamodb", "InternalServerError", status=500)
        return {}

    def _write(self, act: str, arguments: Mapping[str, Any]) -> None:
        key = _key_of(arguments)
        match act:
            case "Put":
                self._put(arguments["Item"])
            case "Delete":
                self.table.pop(key, None)
            case "Update":
                names, values = arguments["ExpressionAttributeNames"], arguments["ExpressionAttributeValues"]
                before = pack_row(self.table.get(key, {})) | arguments["Key"]
                self._put(update(arguments["UpdateExpression"]).apply(before, names, values))

    def _put(self, item: Mapping[str, Any]) -> None:
        row = {name: UNPACK.deserialize(value) for name, value in item.items()}
        self.table[row["pk"], row["sk"]] = row

    def _holds(self, arguments: Mapping[str, Any]) -> bool:
        """Return True if the row has what the write's condition asks for, as the simulator's DynamoDB reads it."""
        text = arguments.get("ConditionExpression")
        names, values = (arguments.get(f"ExpressionAttribute{kind}", {}) for kind in ("Names", "Values"))
        return not text or condition(text).holds(
            pack_row(self.table.get(_key_of(arguments), {})), names, values
        )

    def _pricing(self, _operation: str, request: Any) -> Any:
        return _price_list().get_products(json.loads(request.body), asked_in="us-east-1")

    def _sns(self, _operation: str, request: Any) -> str:
        arguments = _form(request.body)
        assert re.fullmatch("[ -~]{1,100}", arguments["Subject"]), "SNS refuses such a subject"
        self.notices.append((arguments["Subject"], arguments["Message"]))
        return "<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>"

    def _lambda(self, _operation: str, request: Any) -> AWSResponse:
        function = urlsplit(request.url).path.split("/")[3]
        self.invoked.append((function, json.loads(request.body)))
        return _response(request.url, "", status=202)

    def _s3(self, operation: str, request: Any) -> str | AWSResponse:
        url = urlsplit(request.url)
        if operation == "ListObjectsV2":
            prefix = unquote(parse_qs(url.query)["prefix"][0])
            found = "".join(
                f"<Contents><Key>{key}</Key><Size>{len(body)}</Size></Contents>"
                for key, body in sorted(self.objects.items())
                if key.startswith(prefix)
            )
            return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        key = unquote(url.path).lstrip("/")
        key = key if key in self.objects or operation == "PutObject" else key.partition("/")[2]
        if operation == "PutObject":
            name = key.partition("/")[2] if key.startswith("bucket/") else key
            if name in self.objects and request.headers.get("If-None-Match"):
                return _response(request.url, "<Error><Code>PreconditionFailed</Code></Error>", status=412)
            self.objects[name] = _body_of(request)
            return ""
        if key not in self.objects:
            return _response(request.url, "<Error><Code>NoSuchKey</Code></Error>", status=404)
        return _response(request.url, self.objects[key].decode())


@contextmanager
def answering(account: Recorded) -> Iterator[Recorded]:
    """Let this account answer all clients of the functions."""
    before, session = boto3.DEFAULT_SESSION, _session()
    boto3.DEFAULT_SESSION = session
    session.events.register("before-send", account.answer)
    clients.client.cache_clear()
    try:
        yield account
    finally:
        clients.client.cache_clear()
        session.events.unregister("before-send", account.answer)
        boto3.DEFAULT_SESSION = before


@cache
def _price_list() -> PriceList:
    return PriceList(Settings.load())


@cache
def _session() -> boto3.Session:
    """Return one session for all accounts, because parsing the service models is slow."""
    return boto3.Session(
        region_name="us-east-1",
        aws_access_key_id="recorded",
        aws_secret_access_key="recorded",
    )


def _instance(host: Host) -> str:
    changed = f"User initiated ({host.changed:%Y-%m-%d %H:%M:%S} GMT)" if host.changed else ""
    tags = "".join(
        f"<item><key>{escape(k)}</key><value>{escape(v)}</value></item>" for k, v in host.tags.items()
    )
    return (
        f"<item><instanceId>{host.id}</instanceId><imageId>ami-0123456789abcdef0</imageId>"
        f"<instanceState><code>16</code><name>{host.state}</name></instanceState>"
        f"<privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName><reason>{changed}</reason>"
        f"<instanceType>{host.type}</instanceType><launchTime>{host.launched:%Y-%m-%dT%H:%M:%S.000Z}</launchTime>"
        "<placement><availabilityZone>us-east-1a</availabilityZone><tenancy>default</tenancy></placement>"
        "<monitoring><state>disabled</state></monitoring><subnetId>subnet-0123456789abcdef0</subnetId>"
        "<vpcId>vpc-0123456789abcdef0</vpcId><privateIpAddress>10.0.0.1</privateIpAddress>"
        "<architecture>x86_64</architecture><rootDeviceType>ebs</rootDeviceType><rootDeviceName>/dev/sda1</rootDeviceName>"
        "<blockDeviceMapping><item><deviceName>/dev/sda1</deviceName><ebs><volumeId>vol-0123456789abcdef0</volumeId>"
        "<status>attached</status><deleteOnTermination>true</deleteOnTermination></ebs></item></blockDeviceMapping>"
        f"{'<instanceLifecycle>spot</instanceLifecycle>' if host.spot else ''}<tagSet>{tags}</tagSet></item>"
    )


def _read_numbered(arguments: Mapping[str, str], name: str) -> list[str]:
    return [arguments[f"{name}.{n}"] for n in range(1, len(arguments) + 1) if f"{name}.{n}" in arguments]


def _filters(arguments: Mapping[str, str]) -> dict[str, list[str]]:
    names = {
        name.split(".")[1]: value
        for name, value in arguments.items()
        if re.fullmatch(r"Filter\.\d+\.Name", name)
    }
    return {name: _read_numbered(arguments, f"Filter.{number}.Value") for number, name in names.items()}


def _pack(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: PACK.serialize(value) for name, value in row.items()}


def _body_of(request: Any) -> bytes:
    body = request.body if isinstance(request.body, bytes) else request.body.read()
    # botocore sends the body in chunks, followed by a checksum.
    pieces = re.fullmatch(rb"[0-9a-f]+\r\n(.*)\r\n0\r\n.*", body, re.DOTALL)
    return bytes(pieces[1]) if pieces else bytes(body)


def _form(body: Any) -> dict[str, str]:
    text = body.decode() if isinstance(body, bytes) else str(body)
    return {key: values[0] for key, values in parse_qs(text).items()}


def _response(url: str, body: Any, *, status: int = 200) -> AWSResponse:
    text = body if isinstance(body, str) else json.dumps(body)
    return AWSResponse(url, status, {"Content-Length": str(len(text.encode()))}, _Raw(text.encode()))


def _key_of(arguments: Mapping[str, Any]) -> tuple[str, str]:
    key = arguments["Key"] if "Key" in arguments else arguments["Item"]
    return key["pk"]["S"], key["sk"]["S"]


def _cancelled_error(hold: Sequence[bool]) -> AWSResponse:
    reasons = [{"Code": "None" if holds else "ConditionalCheckFailed"} for holds in hold]
    body = {"__type": "TransactionCanceledException", "message": "no", "CancellationReasons": reasons}
    return _response("", body, status=400)


def _raise_failure(service: str, code: str, about: str = "", *, status: int = 400) -> AWSResponse:
    if service in ("ec2", "sns"):
        error = f"<Code>{code}</Code><Message>no: {about}</Message>"
        return _response("", f"<Response><Errors><Error>{error}</Error></Errors></Response>", status=400)
    if service == "sts":
        error = f"<Error><Code>{code}</Code><Message>no: {about}</Message></Error>"
        return _response("", f"<ErrorResponse>{error}</ErrorResponse>", status=400)
    return _response("", {"__type": code, "message": "no"}, status=status)


class _Raw:
    """The raw body of an AWSResponse."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.body

    def read(self, *_: Any) -> bytes:
        body, self.body = self.body, b""
        return body
