"""Permissions for the rows of models."""

from aws_cdk import aws_dynamodb as dynamodb

from stacks.constructs.permissions import allow, kms
from stacks.constructs.permissions.holder import Holder
from trainyard.protocol.ledger import models


def read_models(role: Holder, table: dynamodb.ITable, *calls: str) -> None:
    """Allow reading the rows of models, and no other row of the ledger."""
    keys = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [models.partition("*"), models.MODELS]}}
    allow(role, [f"dynamodb:{call}" for call in calls], [table.table_arn], keys)
    kms.use_for_rows(role, table, calls)
