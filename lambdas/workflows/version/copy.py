"""Copy of version: copy the files of the origin into the version's folder, and record the SHA-256 of each."""

from concurrent.futures import ThreadPoolExecutor

from lambdas import environment
from lambdas.aws import s3
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.models import origin
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import model_origins
from lambdas.steps.entry_point import entry_point
from trainyard.protocol import keys
from trainyard.values.lazy import dataclass

AT_ONCE = 8
NEEDS = Needs(
    YardSettings,
    (
        may("read and list objects", *model_origins.READ),
        may("write objects", keys.MODELS),
        may("use the ledger", "UpdateItem"),
    ),
    minutes=15,
)


@dataclass(frozen=True, kw_only=True)
class CopyInput:
    model: str
    number: int
    prefix: str
    """The folder of the origin."""


@dataclass(frozen=True, kw_only=True)
class Copied:
    kind = "copied"
    changed: tuple[str, ...]
    """Files that differ from the digests in trainyard.json."""


@entry_point
def handler(given: CopyInput) -> Copied:
    yard, target = environment.read(YardSettings), keys.version(given.model, given.number)
    paths = [key.removeprefix(given.prefix) for key in s3.list_keys(yard.bucket_name, given.prefix)]

    def copy(path: str) -> str:
        return s3.copy(yard.bucket_name, f"{given.prefix}{path}", f"{target}{path}")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        manifest = dict(zip(paths, pool.map(copy, paths), strict=True))
    Ledger(yard.table_name).write(rows_of.version_row(given.model, given.number, {"manifest": manifest}))
    record = model_origins.read_record(yard.bucket_name, given.prefix)
    return Copied(changed=origin.find_changed(record, manifest))
