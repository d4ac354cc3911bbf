"""Access with a run's credentials, judged by the evaluator of the local cloud and the simulator."""

import json
from dataclasses import replace

import pytest
from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

from lambdas.core.run.bucket_access import LONGEST, session_policy
from tests.unit.core.builders import job
from trainyard.core.jobfile.references import lineage, owner_of_work
from trainyard.core.model.job import Job
from trainyard.core.model.program import MOST_SECRETS, Telemetry
from trainyard.values.validation import Fault

BUCKET, RUN = "yard-bucket", "digits-1a2b3c4d"


def of(
    *, program: str | None = "p/mine.tar.gz", data: tuple[str, ...] = (), resume: str | None = None
) -> Job:
    return job(
        program={"module": "mine", "source": f"s3://{BUCKET}/programs/{program}"}
        if program
        else {"module": "training.programs.digits"},
        data={f"d{number}": f"s3://{BUCKET}/data/{each}" for number, each in enumerate(data)},
        checkpoints={"resume": resume} if resume else {},
    )


def may(policy: str, action: str, key: str | None, bucket: str = BUCKET, **context: str) -> bool:
    statements = parse_policy_document(json.loads(policy))
    resource = f"arn:aws:s3:::{bucket}" + (f"/{key}" if key is not None else "")
    asked = EvalContext(
        principal_arn="arn:aws:sts::123456789012:assumed-role/run/i-1",
        principal_type="AssumedRole",
        principal_account="123456789012",
        action=f"s3:{action}",
        resource_arn=resource,
        region="us-east-1",
        service_context={name.replace("_", ":"): value for name, value in context.items()},
    )
    return bool(evaluate(asked, [statements]).decision == "Allow")


@pytest.mark.parametrize(
    ("action", "key", "allowed"),
    [
        ("GetObject", f"runs/{RUN}/job.json", True),
        ("PutObject", f"runs/{RUN}/model/a/b", True),
        ("GetObject", "programs/p/mine.tar.gz", True),
        ("GetObject", "data/train/a/b.npz", True),
        ("GetObject", "runs/earlier-1/checkpoints/00000120/w", True),
        ("GetObject", f"runs/{RUN}-2/job.json", False),
        ("PutObject", f"runs/{RUN}x/model/a", False),
        ("GetObject", "runs/earlier-1/model/saved_model.pb", False),
        ("PutObject", "runs/earlier-1/checkpoints/latest.json", False),
        ("DeleteObject", "runs/earlier-1/checkpoints/latest.json", False),
        ("GetObject", "programs/p/mine.tar.gz.bak", False),
        ("GetObject", "programs/other.tar.gz", False),
        ("GetObject", "data/train2/a", False),
        ("GetObject", "data/other/a", False),
        ("PutObject", "data/train/a", False),
        ("PutObject", "programs/p/mine.tar.gz", False),
        ("GetObject", "jobs/theirs.json", False),
        ("GetObject", "credentials/AROAHOST:i-1.json", False),
    ],
)
def test_a_run_reaches_its_own_part_its_source_its_data_and_what_it_resumes(
    action: str, key: str, *, allowed: bool
) -> None:
    policy = session_policy(BUCKET, RUN, of(data=("train/", "test/"), resume="earlier-1"), yard="trainyard")
    assert may(policy, action, key) is allowed


@pytest.mark.parametrize(
    ("prefix", "allowed"),
    [
        (f"runs/{RUN}/", True),
        (f"runs/{RUN}/checkpoints/", True),
        ("data/train/", True),
        ("runs/earlier-1/checkpoints/00000120/", True),
        ("runs/", False),
        (f"runs/{RUN}", False),
        ("data/", False),
        ("data/trai", False),
        ("runs/earlier-1/", False),
        ("programs/p/mine.tar.gz", True),
        ("programs/p/", False),
        ("", False),
        (None, False),
    ],
)
def test_it_lists_the_same_and_never_without_a_prefix(prefix: str | None, *, allowed: bool) -> None:
    policy = session_policy(BUCKET, RUN, of(data=("train/",), resume="earlier-1"), yard="trainyard")
    context = {} if prefix is None else {"s3_prefix": prefix}
    assert may(policy, "ListBucket", None, **context) is allowed


def test_a_job_of_nothing_but_a_program_of_the_image_has_its_own_part() -> None:
    policy = session_policy(BUCKET, RUN, of(program=None), partition="aws-cn", yard="trainyard")
    assert [each["Resource"] for each in json.loads(policy)["Statement"]] == [
        [f"arn:aws-cn:s3:::{BUCKET}/runs/{RUN}/*"],
        [f"arn:aws-cn:s3:::{BUCKET}"],
        ["*"],
    ]


def test_names_too_long_for_a_policy_give_way_to_their_folders_the_longest_first() -> None:
    long = tuple(f"{'folder' * 20}/{number:02d}{'x' * 150}/" for number in range(15))
    policy = session_policy(BUCKET, RUN, of(data=("short/", *long)), yard="trainyard")
    assert len(policy) <= LONGEST
    assert may(policy, "GetObject", f"data/{long[3]}a")
    assert may(policy, "GetObject", "data/short/a")
    assert not may(policy, "GetObject", "data/other/a")
    assert not may(policy, "GetObject", "programs/other.tar.gz")
    shortest = session_policy(
        BUCKET, RUN, of(data=("short/", *long), resume="earlier-1"), longest=1, yard="trainyard"
    )
    assert may(shortest, "GetObject", "data/other/a")
    assert not may(shortest, "GetObject", "runs/other/job.json")
    assert not may(shortest, "GetObject", "runs/earlier-1/job.json")


def test_a_run_reads_the_secrets_that_its_job_names_and_no_other() -> None:
    named = {f"S{number}": f"{number}{'x' * 39}" for number in range(MOST_SECRETS)}
    long = tuple(f"{'folder' * 20}/{number:02d}{'x' * 150}/" for number in range(15))
    asking = of(data=long)
    asking = replace(asking, program=replace(asking.program, secrets=named))
    policy = session_policy("b" * 63, "r" * 80, asking, yard="trainyard")
    assert len(policy) <= LONGEST
    (secrets,) = [each for each in json.loads(policy)["Statement"] if each["Action"] == "ssm:GetParameters"]
    assert secrets["Resource"] == [
        f"arn:aws:ssm:*:*:parameter/trainyard/secrets/{name}" for name in sorted(named.values())
    ]


@pytest.mark.parametrize("name", ["a*/", "a?/", "${aws:userid}/", "deep/a*b/c/"])
def test_what_a_policy_would_read_as_something_else_gives_way_to_its_folder(name: str) -> None:
    policy = session_policy(BUCKET, RUN, of(data=(name,)), yard="trainyard")
    assert may(policy, "GetObject", f"data/{name}x")
    assert "$" not in policy
    assert not may(policy, "GetObject", "runs/other/job.json")


def test_a_run_mounts_the_file_systems_that_its_job_names_as_the_job_says() -> None:
    read, write, fsx = ("fs-0123456789abcdef0", "fs-0fedcba9876543210", "fs-0aaaaaaaaaaaaaaaa")
    data = {
        "a": f"efs://{read}/team/",
        "b": {"source": f"efs://{write}/", "access": "write"},
        "c": f"fsx://{fsx}/",
    }
    policy = session_policy(BUCKET, RUN, job(data=data), yard="trainyard")
    found = {
        each["Action"]: each["Resource"]
        for each in json.loads(policy)["Statement"]
        if each["Action"].startswith("elasticfilesystem:")
    }
    arns = [f"arn:aws:elasticfilesystem:*:*:file-system/{name}" for name in (read, write)]
    assert found == {"elasticfilesystem:ClientMount": arns, "elasticfilesystem:ClientWrite": arns[1:]}
    assert fsx not in policy
    assert "efs" not in policy.replace("elasticfilesystem", "")


LATEST = {"key": "runs/first/checkpoints/00000120/", "step": 120}


@pytest.mark.parametrize(
    ("run", "latest", "written", "owner"),
    [
        ("first", LATEST, {"checkpoints": {"resume": None}}, "first"),
        ("second", LATEST, {"checkpoints": {"resume": "first"}}, "first"),
        ("second", LATEST, {"checkpoints": {"resume": "other"}}, None),
        ("second", LATEST, None, None),
        ("first", None, None, None),
        ("first", {"key": None}, None, None),
        ("first", {"key": "runs/first/model/"}, None, None),
        ("first", {"key": ["runs/first/checkpoints/"]}, None, None),
    ],
)
def test_a_checkpoint_is_of_the_run_or_of_the_one_that_it_went_on_from(
    run: str, latest: dict[str, object] | None, written: dict[str, object] | None, owner: str | None
) -> None:
    """Hosts write latest.json, so the file must not give a resuming run access to other runs."""
    found = owner_of_work(lineage(run, written), latest, kept=(), restores=True)
    if owner is None:
        assert isinstance(found, Fault)
        assert found.path == "checkpoints.resume"
    else:
        assert found == owner


OTHER = "s3://corpus/images/train/"


@pytest.mark.parametrize(
    ("action", "resource", "prefix", "allowed"),
    [
        ("GetObject", "corpus/images/train/a", None, True),
        ("GetObject", "shelf/p.tar.gz", None, True),
        ("ListBucket", "corpus", "images/train/", True),
        ("GetObject", "corpus/images/test/a", None, False),
        ("GetObject", "shelf/q.tar.gz", None, False),
        ("PutObject", "corpus/images/train/a", None, False),
        ("DeleteObject", "corpus/images/train/a", None, False),
        ("ListBucket", "corpus", "images/", False),
        ("ListBucket", "shelf", "", False),
        ("ListBucket", "corpus", None, False),
        ("ListBucket", BUCKET, "images/train/", False),
        ("GetObject", f"{BUCKET}/images/train/a", None, False),
    ],
)
def test_of_other_buckets_a_run_reads_what_its_job_names(
    action: str, resource: str, prefix: str | None, *, allowed: bool
) -> None:
    asking = job(
        program={"module": "mine", "source": "s3://shelf/p.tar.gz"}, data={"train": OTHER}, checkpoints={}
    )
    policy = session_policy(BUCKET, RUN, asking, yard="trainyard")
    bucket, _, key = resource.partition("/")
    context = {"s3_prefix": prefix} if prefix is not None else {}
    assert may(policy, action, key or None, bucket=bucket, **context) is allowed


def test_a_run_pulls_only_its_own_image_and_reads_the_secret_of_its_login() -> None:
    registry = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
    own = json.loads(
        session_policy(BUCKET, RUN, job(program={"container": f"{registry}/team/a:v1"}), yard="Y")
    )
    allowed = {each["Resource"][0]: each["Action"] for each in own["Statement"] if "ecr" in each["Action"]}
    assert allowed == {
        "arn:aws:ecr:eu-west-1:123456789012:repository/team/a": "ecr:*",
        "*": "ecr:GetAuthorizationToken",
    }
    container = {"image": "nvcr.io/team/a:v1", "login": "ngc"}
    policy = session_policy(BUCKET, RUN, job(program={"container": container}), yard="Y")
    assert "ecr:" not in policy
    assert "parameter/Y/secrets/ngc" in policy


def test_a_run_may_read_the_key_of_the_yards_receiver_of_metrics() -> None:
    telemetry = Telemetry("https://otlp.example.com", "otlp")
    policy = session_policy(BUCKET, RUN, replace(of(), telemetry=telemetry), yard="Trainyard")
    assert "parameter/Trainyard/secrets/otlp" in policy
    keyless = replace(of(), telemetry=Telemetry("https://otlp.example.com"))
    assert session_policy(BUCKET, RUN, keyless, yard="Trainyard") == session_policy(
        BUCKET, RUN, of(), yard="Trainyard"
    )
