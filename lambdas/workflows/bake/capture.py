"""Capture of a bake: an image of the builder, with tags for its content and its tests."""

import hashlib
import json

from lambdas import environment
from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.images import bake
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import attempts, waits
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Nothing, WaitInput
from lambdas.steps.observability import clock
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag

NEEDS = Needs(
    YardSettings,
    (
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
        may("read objects", keys.tests(keys.ANY), keys.sbom(keys.ANY)),
        may("list objects", keys.RUNS),
        may("image hosts"),
        may("retire images"),
        may("answer tasks", "Success"),
        may("call", "ec2:DescribeImages", "ec2:DescribeInstances"),
    ),
)


@entry_point
def handler(given: WaitInput) -> Nothing:
    yard, run, attempt = environment.read(YardSettings), given.run, given.attempt
    entered = waits.enter(Ledger(yard.table_name), run, attempt, "capture", given.task_token, clock())
    attempts.refuse_denied(entered.records, attempt)
    (builder,) = entered.records.attempts[attempt].hosts
    if entered.row is None:
        waits.raise_if_over(entered, builder)
    row = entered.records.run
    tests, sbom = (s3.get(yard.bucket_name, key) or b"{}" for key in (keys.tests(run), keys.sbom(run)))
    recipe, name = row.recipe, bake.baked_name(yard.yard, run, attempt=attempt)
    assert recipe is not None, "an admitted bake has a recipe"
    tags = {
        **bake.baked_tags(yard.yard, recipe, json.loads(tests), run, name=name),
        Tag.RECIPE_SHA256: row.recipe_sha256 or "none",
        Tag.TESTS_SHA256: hashlib.sha256(tests).hexdigest(),
        Tag.SBOM_SHA256: hashlib.sha256(sbom).hexdigest(),
    }
    description = f"Trainyard host, recipe {recipe['name']} {recipe['hash']}"
    waits.await_image(entered, builder, name, description=description, tags=tags)
    waits.retire_if_over(entered)
    return Nothing()
