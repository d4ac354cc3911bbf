"""Storage outlives everything else."""

from tests.infrastructure.assembly import Assembly, Resource
from trainyard.core.model.names import LISTED


def bucket(yard: Assembly) -> Resource:
    (found,) = yard.resources("AWS::S3::Bucket")
    return found


def table(yard: Assembly) -> Resource:
    (found,) = yard.resources("AWS::DynamoDB::Table")
    return found


def test_the_bucket_is_spoken_to_by_tls_alone(yard: Assembly) -> None:
    (policy,) = yard.resources("AWS::S3::BucketPolicy")
    denied = [each for each in policy.properties["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"]
    assert any(
        each["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        and each["Action"] == "s3:*"
        and each["Principal"] == {"AWS": "*"}
        for each in denied
    )


def test_the_bucket_is_encrypted_versioned_and_private(yard: Assembly) -> None:
    properties = bucket(yard).properties
    assert properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert properties["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]


def test_nothing_piles_up_unseen(yard: Assembly) -> None:
    rules = bucket(yard).properties["LifecycleConfiguration"]["Rules"]
    assert any("AbortIncompleteMultipartUpload" in rule for rule in rules)
    assert any("NoncurrentVersionExpiration" in rule for rule in rules)
    expiring = [rule for rule in rules if "ExpirationInDays" in rule]
    assert {rule.get("Prefix") for rule in expiring} == {"credentials/"}, (
        "what a user uploaded or trained stays"
    )


def test_the_bucket_announces_its_objects_without_a_function_of_its_own(yard: Assembly) -> None:
    assert bucket(yard).properties["NotificationConfiguration"] == {
        "EventBridgeConfiguration": {"EventBridgeEnabled": True}
    }
    custom = ("Custom::", "AWS::CloudFormation::Custom")
    assert {each.type for each in yard.all() if each.type.startswith(custom)} == {"Custom::Prepared"}


def test_the_ledger_is_encrypted_can_be_restored_and_forgets_what_expires(yard: Assembly) -> None:
    properties = table(yard).properties
    assert properties["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["SSESpecification"] == {"SSEEnabled": True}
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}
    assert properties["BillingMode"] == "PAY_PER_REQUEST"


def test_destroying_the_stacks_keeps_bucket_and_ledger(yard: Assembly) -> None:
    for kept in (bucket(yard), table(yard)):
        assert kept.whole["DeletionPolicy"] == "Retain"
    assert table(yard).properties["DeletionProtectionEnabled"] is True


def test_unless_the_yard_is_for_trying_out(private_yard: Assembly) -> None:
    for gone in (bucket(private_yard), table(private_yard)):
        assert gone.whole["DeletionPolicy"] == "Delete"
    assert table(private_yard).properties.get("DeletionProtectionEnabled") is not True


def test_runs_are_listed_by_month_without_their_jobs(yard: Assembly) -> None:
    (index,) = table(yard).properties["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "month"
    assert index["KeySchema"] == [
        {"AttributeName": "month", "KeyType": "HASH"},
        {"AttributeName": "created", "KeyType": "RANGE"},
    ]
    assert index["Projection"]["ProjectionType"] == "INCLUDE"
    assert set(index["Projection"]["NonKeyAttributes"]) == set(LISTED)
