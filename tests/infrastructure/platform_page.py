"""The generated parts of docs/platform.md: `python -m tests.infrastructure.platform_page` writes them.

The settings of the construct come from `YardSettings`, the deployer's permissions from the resource types of the
templates (AWS's schemas of these types, as cfn-lint ships them), the boundary from the roles of the templates.
"""

import ast
import inspect
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from stacks.settings import YardSettings
from tests.infrastructure.assembly import Assembly, permissions_in
from tests.infrastructure.conftest import CONTEXTS, ROOT, synthesise

PAGE = ROOT / "docs/platform.md"
POLICIES = ROOT / "docs/policies"
REGION = "us-east-1"
MOST_CHARACTERS = 6144
"""The characters of a managed policy that IAM counts: all except white space."""
OF_OTHER_SERVICES = {"iam:PassRole", "iam:CreateServiceLinkedRole", "kms:CreateGrant", "kms:DescribeKey"}
"""Actions that a resource type needs outside its own service, with the yard's settings."""
PREFIXES = {"StepFunctions": "states"}
"""IAM's names of services whose resource types have another name."""
READS = ("Describe", "Get", "List")
INVOKES = {"Custom::Prepared": ("lambda:InvokeFunction",)}
"""Resource types that have no schema, with the actions that they need."""
ASSETS = ("s3:GetObject", "s3:GetObjectVersion")
"""Actions on the bucket of `cdk bootstrap`: CloudFormation reads the code of functions there."""
SESSION_MANAGER = (
    "ec2messages:*", "ssm:DescribeAssociation", "ssm:DescribeDocument", "ssm:GetDeployablePatchSnapshotForInstance",
    "ssm:GetDocument", "ssm:GetManifest", "ssm:ListAssociations", "ssm:ListInstanceAssociations",
    "ssm:PutComplianceItems", "ssm:PutConfigurePackageResult", "ssm:PutInventory", "ssm:UpdateAssociationStatus",
    "ssm:UpdateInstanceAssociationStatus", "ssm:UpdateInstanceInformation", "ssmmessages:*",
)  # fmt: skip
"""The actions of AWS's policy AmazonSSMManagedInstanceCore, which hosts have."""


def settings() -> str:
    """Return a table of the construct's properties, with their types, defaults and descriptions."""
    texts = _docstrings()
    rows = [
        f"| `{each.name}` | `{each.type}` | {_default(each)} | {texts[each.name]} |"
        for each in fields(YardSettings)
        if each.name != "remembered"
    ]
    return "\n".join(["| property | type | default | meaning |", "|---|---|---|---|", *rows])


def _docstrings() -> dict[str, str]:
    """Return the description below each property of `YardSettings`, on one line."""
    [tree] = ast.parse(inspect.getsource(YardSettings)).body
    assert isinstance(tree, ast.ClassDef)
    found, name = dict[str, str](), ""
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)):
                pass
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                found[name] = " ".join(text.split()).replace("|", "\\|")
    return found


def _default(each: Field[Any]) -> str:
    if each.default is MISSING:
        return "`Policy()`" if each.name == "policy" else ""
    return "" if each.default in ("", ()) else f"`{each.default!r}`"


def needs(kind: str) -> set[str]:
    """Return the actions that CloudFormation needs to create, read, update and delete resources of this type."""
    if kind.startswith("AWS::CDK::"):
        return set()
    if kind in INVOKES:
        return set(INVOKES[kind])
    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema["handlers"]
    asked = {action for handler in handlers.values() for action in handler.get("permissions", [])}
    service = kind.split("::")[1]
    own = PREFIXES.get(service, service.lower())
    return {action for action in asked if service_of(action) == own or action in OF_OTHER_SERVICES}


def service_of(action: str) -> str:
    return action.partition(":")[0]


def kinds(yards: Iterable[Assembly]) -> set[str]:
    return {each.type for yard in yards for each in yard.all() if needs(each.type)}


def types(yards: Iterable[Assembly]) -> str:
    """Return a table of the resource types of the templates, with the actions that change them."""
    rows = [
        f"| `{kind}` | {' '.join(f'`{action}`' for action in sorted(needs(kind)) if not _reads(action))} |"
        for kind in sorted(kinds(yards))
    ]
    return "\n".join(["| type | actions that change it |", "|---|---|", *rows])


def _reads(action: str) -> bool:
    return action.partition(":")[2].startswith(READS)


def deployer(yards: Iterable[Assembly]) -> list[dict[str, Any]]:
    """Return the policies for CloudFormation's role. Each is at most as large as IAM allows. Reading actions have a
    wildcard."""
    actions = _with_wildcards(action for kind in kinds(yards) for action in needs(kind)) | set(ASSETS)
    policies, held = list[dict[str, Any]](), set[str]()
    for _, each in groupby(sorted(actions), service_of):
        more = {*each}
        if characters(policy(held | more)) > MOST_CHARACTERS:
            policies.append(policy(held))
            held = set()
        held |= more
    return [*policies, policy(held)]


def characters(document: Mapping[str, Any]) -> int:
    """Return the number of characters that IAM counts."""
    return len(re.sub(r"\s", "", json.dumps(document)))


def _with_wildcards(actions: Iterable[str]) -> set[str]:
    def shortened(action: str) -> str:
        verb = re.match(rf"(\w+:(?:{'|'.join(READS)}))\w", action)
        return f"{verb[1]}*" if verb else action

    return {shortened(action) for action in actions}


def boundary(yards: Iterable[Assembly]) -> dict[str, Any]:
    """Return the smallest permissions boundary: every action that a role of the yard is allowed."""
    actions = {permission for yard in yards for permission in allowed(yard)}
    return policy(actions | set(SESSION_MANAGER))


def allowed(yard: Assembly) -> set[str]:
    """Return the actions that the yard's own roles are allowed. The policies for people are not among them."""
    documents = [each.properties["PolicyDocument"] for each in yard.resources("AWS::IAM::Policy")]
    for role in yard.resources("AWS::IAM::Role"):
        documents += [inline["PolicyDocument"] for inline in role.properties.get("Policies", [])]
    statements = [statement for document in documents for statement in document["Statement"]]
    return {each.action for each in permissions_in(statements)}


def policy(actions: Iterable[str]) -> dict[str, Any]:
    """Return a policy with one statement for each service."""
    by_service = groupby(sorted(actions), service_of)
    statements = [{"Effect": "Allow", "Action": [*each], "Resource": "*"} for _, each in by_service]
    return {"Version": "2012-10-17", "Statement": statements}


def parts(yards: Iterable[Assembly]) -> dict[str, str]:
    """Return the generated parts of the page by their names."""
    return {"settings": settings(), "types": types(yards)}


def policies(yards: Iterable[Assembly]) -> dict[str, dict[str, Any]]:
    """Return the generated policies by the names of their files."""
    numbered = enumerate(deployer(yards), start=1)
    return {"boundary.json": boundary(yards)} | {f"deployer-{number}.json": each for number, each in numbered}


def page(text: str, generated: Mapping[str, str]) -> str:
    """Return the text of the page with these parts between their marks."""
    for name, part in generated.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{part}\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    """Write the page's parts and the policies."""
    with tempfile.TemporaryDirectory() as folder:
        yards = [synthesise(Path(folder, name), context) for name, context in CONTEXTS.items()]
        PAGE.write_text(page(PAGE.read_text(), parts(yards)))
        POLICIES.mkdir(exist_ok=True)
        for name, document in policies(yards).items():
            (POLICIES / name).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
