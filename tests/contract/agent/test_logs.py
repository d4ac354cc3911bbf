"""A long log, from the program to a reader of the bucket."""

import boto3

from tests.contract.agent.host import Yard
from tests.contract.conftest import REGION, eventually
from trainyard.client.bucket import Bucket
from trainyard.client.runs.logs import LogLine, RunLogs, text_of
from trainyard.client.session import Session

LINES = 60_000
PRINTS = f"""
import pathlib, time
for number in range({LINES // 2}):
    print("line", number, "x" * 100)
print("half of it", end="", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.1)
print()
for number in range({LINES // 2}, {LINES}):
    print("line", number, "x" * 100)
"""
EXPECTED = [
    *(f"line {number} {'x' * 100}" for number in range(LINES // 2)),
    "half of it",
    *(f"line {number} {'x' * 100}" for number in range(LINES // 2, LINES)),
    "[trainyard] the program ended with exit code 0",
    "[trainyard] outputs: 1 file, 0 B",
]


def bucket_of(yard: Yard) -> Bucket:
    root = yard.cloud.root
    keys = boto3.Session(root.key, root.secret, region_name=REGION)
    return Bucket(Session(keys, yard.cloud.endpoint), yard.bucket)


def chunks(yard: Yard) -> dict[str, str]:
    """Return the versions of the log by key."""
    return bucket_of(yard).etags(f"runs/{yard.run}/attempts/1/logs/chief-0/")


def test_a_long_log_keeps_its_middle_and_is_read_as_it_grows_over_a_restart_of_the_agent(yard: Yard) -> None:
    yard.prepare(PRINTS)
    service = yard.metadata()
    logs = RunLogs(bucket_of(yard), yard.run, first=1)
    told: list[LogLine] = []
    with yard.agent_process(service):
        yard.hear("ready")
        yard.order("start", 1)
        eventually(lambda: yard.log().endswith(" | half of it"))
        told += logs.new()
        before = chunks(yard)
    with yard.agent_process(service):
        (yard.paths.program / "go").touch()
        yard.hear("finished")
    told += logs.new()
    after = chunks(yard)
    assert len(after) > len(before) > 1
    assert [after[key] for key in list(before)[:-1]] == list(before.values())[:-1]
    said = [line.text for line in told]
    assert said[said.index(EXPECTED[0]) :] == EXPECTED
    assert told == list(RunLogs(bucket_of(yard), yard.run, first=1).read())
    assert text_of(bucket_of(yard), f"runs/{yard.run}/attempts/1/logs/chief-0/") == yard.log()
