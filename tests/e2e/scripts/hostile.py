"""Attack another run of the yard, with the credentials of the run or, as root, of the host. Print each outcome."""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial

import boto3
import botocore.session
from botocore.credentials import InstanceMetadataProvider
from botocore.exceptions import ClientError
from botocore.utils import InstanceMetadataFetcher

parser = argparse.ArgumentParser()
parser.add_argument("--bucket", required=True)
parser.add_argument("--bus", required=True)
parser.add_argument("--victim", required=True)
parser.add_argument("--host", required=True, help="the victim's chief")
parser.add_argument("--user", required=True, help="as IAM knows that host")
parser.add_argument("--who", choices=("run", "host"), required=True)
parser.add_argument("--own", required=True, help="the attacker's run")
flags = parser.parse_args()


def host_session() -> boto3.Session:
    """Return a session with the credentials of the metadata service."""
    there = InstanceMetadataProvider(InstanceMetadataFetcher(env={}))
    own = botocore.session.Session()
    own.get_component("credential_provider").insert_before("env", there)
    return boto3.Session(botocore_session=own)


session = boto3.Session() if flags.who == "run" else host_session()
me = session.client("sts").get_caller_identity()["UserId"]
own, victim = f"runs/{flags.own}", f"runs/{flags.victim}"
AT = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())


def entry(source: str, word: str, **facts: object) -> dict[str, str]:
    detail = {"run": flags.victim, "attempt": 1, "instance": flags.host, "at": AT, "signal": word, **facts}
    return {"Source": source, "DetailType": word, "EventBusName": flags.bus, "Detail": json.dumps(detail)}


CONTROL = (
    *(
        "job.json",
        "order.json",
        "plan.json",
        "summary.json",
        "timeline.jsonl",
        "recipe.json",
        "tests.json",
        "sbom.json",
    ),
    *("attempts/1/cluster.json", "attempts/2/cluster.json", "logs/builder/00000001.log"),
)
WORK = (
    "metrics.json",
    "model/saved_model.pb",
    "checkpoints/latest.json",
    "attempts/1/logs/chief-0/00000001.log",
)
SAID: dict[str, dict[str, str]] = {
    "in the victim's name": entry(f"trainyard.host/{flags.user}", "finished", step=1),
    "of no host": entry("trainyard.host/", "finished", step=1),
    "in the old way": entry("trainyard.host", "finished", step=1),
    "in patrol's name": entry("trainyard.patrol", "cap"),
    "in EC2's name": entry("aws.ec2", "EC2 Instance State-change Notification"),
}
Attack = Callable[[], object]


def attacks() -> Iterator[tuple[str, Attack]]:
    s3, bucket = session.client("s3"), flags.bucket

    def write(key: str) -> Attack:
        return lambda: s3.put_object(Bucket=bucket, Key=key, Body=b'{"signal": "finished"}')

    def read(key: str) -> Attack:
        return lambda: s3.get_object(Bucket=bucket, Key=key)

    for name, said in SAID.items():
        yield f"an event {name}", partial(session.client("events").put_events, Entries=[said])
    for key in (*CONTROL, *WORK):
        yield f"the victim's {key}", write(f"{victim}/{key}")
        yield f"the victim's {key} read", read(f"{victim}/{key}")
        yield (
            f"the victim's {key} deleted",
            partial(s3.delete_objects, Bucket=bucket, Delete={"Objects": [{"Key": f"{victim}/{key}"}]}),
        )
        yield (
            f"the victim's {key} copied",
            partial(
                s3.copy_object,
                Bucket=bucket,
                Key=f"{own}/model/theirs",
                CopySource={"Bucket": bucket, "Key": f"{victim}/{key}"},
            ),
        )
    for key in CONTROL:
        yield f"its own {key}", write(f"{own}/{key}")
    for folder in ("signals", "final-reports", "drain-confirmations"):
        yield f"the victim's {folder}", write(f"{victim}/attempts/1/{folder}/{flags.user}.json")
    for key in ("jobs/theirs.json", "programs/theirs.tar.gz", "data/theirs.txt", "images/theirs.yaml"):
        yield f"a new {key}", write(key)
    yield "data of others", read("data/of-others/secret.txt")
    yield "a program of others", read("programs/of-others/secret.tar.gz")
    yield "the victim's names", partial(s3.list_objects_v2, Bucket=bucket, Prefix=f"{victim}/")
    yield "names of all data", partial(s3.list_objects_v2, Bucket=bucket, Prefix="data/")
    yield "the victim's credentials", read(f"credentials/{flags.user}.json")
    yield "credentials for the victim", write(f"credentials/{flags.user}.json")
    yield "credentials for itself", write(f"credentials/{me}.json")
    who = session.client("sts").get_caller_identity()
    role, account = who["Arn"].split("/")[1], who["Account"]
    yield (
        "the role of all runs",
        partial(
            session.client("sts").assume_role,
            RoleArn=f"arn:aws:iam::{account}:role/{role}",
            RoleSessionName="theirs",
        ),
    )
    ec2, ssm = session.client("ec2"), session.client("ssm")
    yield "the victim's end", partial(ec2.terminate_instances, InstanceIds=[flags.host])
    tags = [{"Key": "trainyard:run", "Value": "mine"}]
    yield "the victim's tags", partial(ec2.create_tags, Resources=[flags.host], Tags=tags)
    run = {
        "InstanceIds": [flags.host],
        "DocumentName": "AWS-RunShellScript",
        "Parameters": {"commands": ["id"]},
    }
    yield "a command", partial(ssm.send_command, **run)
    image = {"Name": "/trainyard/image", "Value": "ami-0", "Type": "String", "Overwrite": True}
    yield "the image's name", partial(ssm.put_parameter, **image)


def outcome(attack: Attack) -> str:
    try:
        answer = attack()
    except ClientError as refused:
        return str(refused.response["Error"]["Code"])
    for error in answer.get("Errors", []) if isinstance(answer, dict) else []:
        return str(error["Code"])
    return "went through"


for name, attack in attacks():
    print(f"attack: {name}: {outcome(attack)}", flush=True)
# IAM cannot refuse these: signals in the host's own name about other runs.
for word, facts in {
    "credentials": {},
    "finished": {"step": 1},
    "failed": {"kind": "program", "reason": "theirs", "final": True},
    "stopped": {"why": "asked"},
    "ready": {"address": "10.9.9.9"},
    "hold": {"until": None},
}.items():
    for changed in ({}, {"instance": me.rpartition(":")[2]}) if flags.who == "host" else ():
        session.client("events").put_events(Entries=[entry(f"trainyard.host/{me}", word, **changed, **facts)])
print("all was tried")
