"""The SSM documents of the yard, a YAML file each: the commands that may run on a host, and their parameters.

Documents with steps are commands, which functions send; a document with a `sessionType` is for a user's session. A
line `#{name}` stands for the lock of that name, which the host does not have yet.
"""

import re
import textwrap
from pathlib import Path

import yaml
from aws_cdk import aws_ssm as ssm
from constructs import Construct

FOLDER = Path(__file__).parent
LOCKS = FOLDER.parents[1] / "requirements" / "locks"
LOCK = re.compile(r"^( *)#\{([\w.-]+)\}$", re.MULTILINE)


class Document(ssm.CfnDocument):
    """The document `<yard>-<word>`, from `<word>.yaml`. A change makes a new version, which is the default at once."""

    def __init__(self, scope: Construct, word: str, *, yard: str) -> None:
        content = yaml.safe_load(text_of(word))
        super().__init__(
            scope,
            f"{word.capitalize()}Document",
            name=f"{yard}-{word}",
            content=content,
            document_type="Session" if "sessionType" in content else "Command",
            document_format="YAML",
            target_type="/AWS::EC2::Instance",
            update_method="NewVersion",
        )
        self.document_name = f"{yard}-{word}"
        self.document_arn = self.stack.format_arn(
            service="ssm", resource="document", resource_name=self.document_name
        )


def text_of(word: str) -> str:
    text = (FOLDER / f"{word}.yaml").read_text()
    return LOCK.sub(lambda found: textwrap.indent((LOCKS / found[2]).read_text(), found[1]).rstrip(), text)
