"""Requests about models before they are sent: names, and folders that are uploaded."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from tests.unit.client.facts import yard_of
from trainyard.client import Session, Yard, YardError
from trainyard.client.errors import FileUnreadable, ModelNotChanged
from trainyard.client.registry import Model

FILES = ("saved_model.pb", "trainyard.json", "variables/variables.index")


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        session = Session(
            boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
        )
        found = yard_of(session)
        session.client("s3").create_bucket(Bucket=found.bucket.name)
        yield found


def folder_with(path: Path, *names: str) -> Path:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(name)
    return path


def test_a_local_folder_is_uploaded_without_the_record_that_get_has_left(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: dict[str, str] = {}
    monkeypatch.setattr(Model, "_request", lambda self, act, **given: sent.update(given))
    folder = folder_with(tmp_path / "model", *FILES, ".trainyard/fetched.json")
    yard.model("digits").create_version("v1", folder)
    prefix = sent["origin"].removeprefix(f"s3://{yard.bucket.name}/")
    assert prefix.startswith("data/by/")
    assert sorted(key.removeprefix(prefix) for key in yard.bucket.keys(prefix)) == sorted(FILES)


@pytest.mark.parametrize(
    ("model", "label", "names", "link", "error", "words"),
    [
        ("digits", "v1", (), None, FileUnreadable, "model is not a folder"),
        ("digits", "v1", ("ckpt-1.index",), None, ModelNotChanged, "ckpt-1.index is a checkpoint"),
        ("digits", "v1", FILES, "assets", ModelNotChanged, "model/assets is a link"),
        ("digits", "V1", FILES, None, ModelNotChanged, 'label: "V1" is not'),
        ("Digits", "v1", FILES, None, ModelNotChanged, 'model: "Digits" is not'),
    ],
)
def test_a_request_that_cannot_be_done_is_refused_before_it_is_sent(
    yard: Yard,
    tmp_path: Path,
    model: str,
    label: str,
    names: tuple[str, ...],
    link: str | None,
    error: type[YardError],
    words: str,
) -> None:
    folder = folder_with(tmp_path / "model", *names)
    if link:
        (folder / link).symlink_to(tmp_path)
    with pytest.raises(error) as refused:
        yard.model(model).create_version(label, folder)
    assert words in refused.value.what
