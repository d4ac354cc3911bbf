"""Rules: the function for every event, and the queue for undeliverable events."""

import json

import pytest

from tests.infrastructure.assembly import Assembly, Resource, text


@pytest.fixture
def queue(yard: Assembly) -> Resource:
    (found,) = yard.resources("AWS::SQS::Queue")
    return found


def target(rule: Resource) -> str:
    (only,) = rule.properties["Targets"]
    return text(only["Arn"])


def on_events(yard: Assembly) -> list[Resource]:
    """Return the rules for events; the others are schedules."""
    return [rule for rule in yard.resources("AWS::Events::Rule") if "EventPattern" in rule.properties]


def test_every_rule_tries_again_and_then_keeps_the_event(yard: Assembly, queue: Resource) -> None:
    rules = on_events(yard)
    assert rules
    for rule in rules:
        for each in rule.properties["Targets"]:
            assert each["RetryPolicy"]["MaximumRetryAttempts"] > 0, rule.name
            assert each["RetryPolicy"]["MaximumEventAgeInSeconds"] >= 60, rule.name
            assert text(each["DeadLetterConfig"]["Arn"]) == f"{{{queue.name}.Arn}}", rule.name


def test_every_rule_may_put_into_the_dead_letter_queue(yard: Assembly, queue: Resource) -> None:
    (policy,) = yard.resources("AWS::SQS::QueuePolicy")
    allowed = [each for each in policy.properties["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    sources = [text(each["Condition"]["ArnLike"]["aws:SourceArn"]) for each in allowed]
    assert sources == ["arn:{AWS::Partition}:events:{AWS::Region}:{AWS::AccountId}:rule/*"]
    keeping = {
        rule.name
        for rule in yard.resources("AWS::Events::Rule")
        if "DeadLetterConfig" in rule.properties["Targets"][0]
    }
    assert {rule.name for rule in on_events(yard)} <= keeping


def test_a_function_that_fails_on_an_event_leaves_it_in_the_same_queue(
    yard: Assembly, queue: Resource
) -> None:
    configured = {
        text(each.properties["FunctionName"]): text(
            each.properties["DestinationConfig"]["OnFailure"]["Destination"]
        )
        for each in yard.resources("AWS::Lambda::EventInvokeConfig")
        if "DestinationConfig" in each.properties
    }
    called = {target(rule) for rule in on_events(yard)}
    assert {f"{name[:-1]}.Arn}}" for name in configured} == called | {arn_of_notify(yard)}
    assert set(configured.values()) == {f"{{{queue.name}.Arn}}"}


def test_every_rule_may_call_its_function(yard: Assembly) -> None:
    allowed = {
        (text(each.properties["SourceArn"]), text(each.properties["FunctionName"]))
        for each in yard.resources("AWS::Lambda::Permission")
    }
    calling = [rule for rule in yard.resources("AWS::Events::Rule") if "Function" in target(rule)]
    (topic,) = yard.resources("AWS::SNS::Topic")
    of_rules = {(f"{{{rule.name}.Arn}}", target(rule)) for rule in calling}
    assert allowed == of_rules | {(f"{{{topic.name}}}", arn_of_notify(yard))}


def arn_of_notify(yard: Assembly) -> str:
    return f"{{{yard.functions['notify'].name}.Arn}}"


def test_the_topic_calls_notify_and_no_queue_is_polled(yard: Assembly) -> None:
    (topic,) = yard.resources("AWS::SNS::Topic")
    (subscription,) = yard.resources("AWS::SNS::Subscription")
    given = {name: text(value) for name, value in subscription.properties.items()}
    assert given == {"Protocol": "lambda", "TopicArn": f"{{{topic.name}}}", "Endpoint": arn_of_notify(yard)}
    assert yard.resources("AWS::Lambda::EventSourceMapping") == []


@pytest.mark.parametrize(("name", "folder"), [("JobUploaded", "jobs"), ("RecipeUploaded", "images")])
def test_a_job_file_starts_a_run_a_recipe_a_bake_and_other_objects_nothing(
    yard: Assembly, name: str, folder: str
) -> None:
    (rule,) = [each for each in on_events(yard) if each.name.startswith(name)]
    assert rule.properties["EventPattern"]["detail"]["object"]["key"] == [{"prefix": f"{folder}/"}]
    assert "Submit" in target(rule)


def test_signal_gets_events_of_hosts_people_spot_instances_images_and_commands(yard: Assembly) -> None:
    found = {
        str(word)
        for rule in on_events(yard)
        if "Signal" in target(rule)
        for word in rule.properties["EventPattern"].get(
            "detail-type", rule.properties["EventPattern"]["source"]
        )
    }
    assert found == {
        "{'prefix': 'trainyard.host/'}",
        "{'prefix': 'trainyard.people/'}",
        "{'prefix': 'trainyard.operator/'}",
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance State-change Notification",
        "EC2 AMI State Change",
        "EC2 Command Status-change Notification",
    }


def test_an_execution_that_does_not_end_well_is_released_and_one_cut_short_is_concluded(
    yard: Assembly,
) -> None:
    found = {
        rule.name[:-8]: (
            target(rule).lstrip("{").partition("Function")[0],
            sorted(rule.properties["EventPattern"]["detail"]["status"]),
        )
        for rule in on_events(yard)
        if rule.properties["EventPattern"].get("source") == ["aws.states"]
    }
    assert (
        found.items()
        >= {
            "ReleaseRunBroken": ("Release", ["ABORTED", "FAILED", "TIMED_OUT"]),
            "TrainCutShort": ("TrainConclude", ["ABORTED", "FAILED", "TIMED_OUT"]),
            "BakeCutShort": ("BakeConclude", ["ABORTED", "FAILED", "TIMED_OUT"]),
            "SnapshotImageBroken": ("SnapshotUndo", ["ABORTED", "FAILED", "TIMED_OUT"]),
            "SnapshotCutShort": ("SnapshotConclude", ["ABORTED", "FAILED", "TIMED_OUT"]),
            "DevHostCutShort": ("DevHostConclude", ["ABORTED", "FAILED", "TIMED_OUT"]),
        }.items()
    )


@pytest.mark.parametrize(
    ("name", "function"), [("ReleaseRunBroken", "Release"), ("SnapshotImageBroken", "SnapshotUndo")]
)
def test_what_cleans_up_does_so_after_every_workflow_that_calls_it(
    yard: Assembly, name: str, function: str
) -> None:
    (rule,) = [each for each in on_events(yard) if each.name.startswith(name)]
    calling = [
        each.name
        for each in yard.resources("AWS::StepFunctions::StateMachine")
        if f"{function}FunctionArn" in each.properties["DefinitionSubstitutions"]
    ]
    after = [text(each) for each in rule.properties["EventPattern"]["detail"]["stateMachineArn"]]
    assert sorted(after) == sorted(f"{{{machine}}}" for machine in calling)


def test_what_cleans_up_knows_whose_run_it_was(yard: Assembly) -> None:
    """Executions of two workflows may share a name, and only one of them is the run."""
    for rule in on_events(yard):
        if rule.name[:-8].endswith(("Broken", "CutShort")):
            (only,) = rule.properties["Targets"]
            given = text(only["InputTransformer"]["InputTemplate"])
            assert "detail-executionArn" in given, rule.name


def test_only_events_of_hosts_and_people_are_taken_from_the_yards_bus(yard: Assembly) -> None:
    on_bus = [
        rule.properties["EventPattern"] for rule in on_events(yard) if "EventBusName" in rule.properties
    ]
    hosts, people, operators = ({"prefix": f"trainyard.{word}/"} for word in ("host", "people", "operator"))
    assert sorted(map(str, on_bus)) == sorted(
        str({"source": each}) for each in ([hosts], [people, operators])
    )


def test_patterns_stay_within_eventbridges_limit(yard: Assembly) -> None:
    for rule in on_events(yard):
        assert len(json.dumps(rule.properties["EventPattern"])) <= 2048
