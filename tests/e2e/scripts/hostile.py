"""A program that attacks another run of its yard, with all that its host may do. It says what came of each try."""

import argparse
import json
import os
import time
from collections.abc import Callable

import boto3
from botocore.exceptions import ClientError

parser = argparse.ArgumentParser()
parser.add_argument("--bucket", required=True)
parser.add_argument("--bus", required=True)
parser.add_argument("--victim", required=True)
parser.add_argument("--host", required=True, help="the victim's chief")
parser.add_argument("--user", required=True, help="as IAM knows that host")
flags = parser.parse_args()

s3, events = boto3.client("s3"), boto3.client("events")
me = boto3.client("sts").get_caller_identity()["UserId"]
own, victim = f"runs/{os.environ['TRAINYARD_RUN']}", f"runs/{flags.victim}"
AT = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())


def say(source: str, word: str, **facts: object) -> dict[str, object]:
    detail = {"run": flags.victim, "attempt": 1, "instance": flags.host, "at": AT, "signal": word, **facts}
    entry = {"Source": source, "DetailType": word, "EventBusName": flags.bus, "Detail": json.dumps(detail)}
    return events.put_events(Entries=[entry])


def write(key: str) -> Callable[[], object]:
    return lambda: s3.put_object(Bucket=flags.bucket, Key=key, Body=b'{"signal": "finished"}')


CONTROL = (
    *("job.json", "order.json", "plan.json", "summary.json", "timeline.jsonl", "recipe.json", "tests.json"),
    *("attempts/1/cluster.json", "attempts/2/cluster.json", "logs/builder.log"),
)
ATTACKS: dict[str, Callable[[], object]] = {
    "an event in the victim's name": lambda: say(f"trainyard.host/{flags.user}", "finished", step=1),
    "an event of no host": lambda: say("trainyard.host/", "finished", step=1),
    "an event in the old way": lambda: say("trainyard.host", "finished", step=1),
    "an event in patrol's name": lambda: say("trainyard.patrol", "cap"),
    "an event in EC2's name": lambda: say("aws.ec2", "EC2 Instance State-change Notification"),
    **{f"the victim's {key}": write(f"{victim}/{key}") for key in CONTROL},
    **{f"its own {key}": write(f"{own}/{key}") for key in CONTROL},
    **{
        f"the victim's {folder}": write(f"{victim}/attempts/1/{folder}/{flags.user}.json")
        for folder in ("words", "last-words", "leaving")
    },
    "a job": write("jobs/theirs.json"),
    "a program": write("programs/theirs.tar.gz"),
    "data": write("data/theirs.txt"),
    "a recipe": write("images/theirs.yaml"),
    "the victim's job deleted": lambda: s3.delete_object(Bucket=flags.bucket, Key=f"{victim}/job.json"),
    "the victim's end": lambda: boto3.client("ec2").terminate_instances(InstanceIds=[flags.host]),
    "the victim's tags": lambda: boto3.client("ec2").create_tags(
        Resources=[flags.host], Tags=[{"Key": "trainyard:run", "Value": "mine"}]
    ),
    "a command": lambda: boto3.client("ssm").send_command(
        InstanceIds=[flags.host], DocumentName="AWS-RunShellScript", Parameters={"commands": ["id"]}
    ),
    "the image's name": lambda: boto3.client("ssm").put_parameter(
        Name="/trainyard/image", Value="ami-0", Type="String", Overwrite=True
    ),
}
for name, attack in ATTACKS.items():
    try:
        attack()
    except ClientError as refused:
        print(f"attack: {name}: {refused.response['Error']['Code']}", flush=True)
    else:
        print(f"attack: {name}: went through", flush=True)
# What IAM cannot refuse: its own voice, in which it speaks of others.
for word, facts in {
    "finished": {"step": 1},
    "failed": {"kind": "program", "reason": "theirs", "final": True},
    "stopped": {"why": "asked"},
    "ready": {"address": "10.9.9.9"},
    "hold": {"until": None},
}.items():
    say(f"trainyard.host/{me}", word, **facts)
    say(f"trainyard.host/{me}", word, instance=me.rpartition(":")[2], **facts)
print("all was tried")
