"""The setting `file_systems`, and data entries of a job file that are folders of file systems."""

from dataclasses import replace
from typing import Any

import pytest

from trainyard.core.jobfile import check, references, written
from trainyard.core.model.job import Job
from trainyard.core.model.yard import settings
from trainyard.core.model.yard.file_systems import ListedFileSystem, read_file_systems
from trainyard.protocol.file_systems import Access, FileSystem, FileSystemKind, folder_of
from trainyard.values import serialization
from trainyard.values.validation import InputFaults

EFS, FSX, POINT = "fs-0123456789abcdef0", "fs-0fedcba9876543210", "fsap-0123456789abcdef0"


def _check(data: Any, **more: Any) -> Job | InputFaults:
    job = {"name": "train", "program": {"module": "training.programs.digits"}, "data": data, **more}
    return check.check(job, source="job.yaml", bucket="b")


def _reason(data: Any, **more: Any) -> str:
    found = _check(data, **more)
    assert isinstance(found, InputFaults)
    return found.reason


def test_the_setting_is_a_list_of_mappings_json_or_words() -> None:
    expected = (
        ListedFileSystem(FileSystemKind.EFS, EFS, Access.WRITE, POINT),
        ListedFileSystem(FileSystemKind.FSX, FSX),
    )
    mappings = [{"id": EFS, "access": "write", "access_point": POINT}, {"id": f"fsx://{FSX}"}]
    read = settings.READERS["file_systems"]
    assert read("file_systems", mappings) == expected
    assert read("file_systems", settings.as_word(mappings)) == expected
    assert read("file_systems", f"{EFS}:write:{POINT}, fsx://{FSX}") == expected
    assert read("file_systems", ",".join(map(str, expected))) == expected
    assert read("file_systems", "") == read("file_systems", []) == ()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("shared", "shared is not a file system"),
        ([{"id": EFS, "acess": "write"}], 'did you mean "access"?'),
        ([{"access": "write"}], "id is missing"),
        ([{"id": EFS, "access": "both"}], "is not a file system"),
        (f"fsx://{FSX}:read:{POINT}", "FSx for Lustre has no access points"),
        (f"{EFS},{EFS}:write", f"efs://{EFS} is listed twice"),
        ({"id": EFS}, "is not a list"),
        ("[1", "expected file systems"),
    ],
)
def test_a_wrong_setting_is_refused(given: object, says: str) -> None:
    with pytest.raises(ValueError, match="context file_systems") as refused:
        settings.read("file_systems", given)
    assert says in str(refused.value)


def test_an_entry_is_a_folder_of_a_file_system() -> None:
    job = _check({"shared": {"source": f"efs://{EFS}/team/", "access": "write"}, "fast": f"fsx://{FSX}/"})
    assert isinstance(job, Job)
    shared, fast = job.data["shared"], job.data["fast"]
    assert (shared.folder, shared.access) == (folder_of(f"efs://{EFS}/team/"), Access.WRITE)
    assert fast.folder
    assert (fast.folder.kind, fast.folder.path, fast.access) == (FileSystemKind.FSX, "", Access.READ)
    assert references.list_foreign_uris(job, "b") == {}
    assert not references.findings(job, None, {}).faults


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"a": "efs://shared/"}, 'data.a: "efs://shared/" does not name a file system by its id'),
        ({"a": f"efs://{EFS}.efs.us-east-1.amazonaws.com/"}, f'did you mean "efs://{EFS}/"?'),
        ({"a": f"efs://{EFS}/team"}, f'did you mean "efs://{EFS}/team/"?'),
        ({"a": f"efs://{EFS}"}, f'did you mean "efs://{EFS}/"?'),
        ({"a": f"efs://{EFS}/../"}, "has an empty, . or .. part"),
        ({"a": f"efs://{EFS}/a//b/"}, "has an empty, . or .. part"),
        ({"a": f"efs://{EFS}/a,ro/"}, "has a comma or a colon in its path"),
        ({"a": f"nfs://{EFS}/"}, "or a folder of a file system, as in efs://"),
        (
            {"a": f"efs://{EFS}/x/", "b": f"efs://{EFS}/x/"},
            f"data.b.source: efs://{EFS}/x/ is already data.a",
        ),
        (
            {"a": {"source": "s3://b/data/x/", "access": "write"}},
            "data.a.access: found write, but programs only",
        ),
        ({"a": {"source": f"efs://{EFS}/", "access": "both"}}, "allowed are read, write"),
        ({"a": {"source": f"efs://{EFS}/", "file_system": {}}}, "data.a.file_system: unknown key"),
    ],
)
def test_bad_entries_are_refused(data: Any, says: str) -> None:
    assert says in _reason(data)


def test_a_file_system_is_not_shared_out() -> None:
    data = {"a": {"source": f"efs://{EFS}/", "sharding": "file"}}
    assert "which shares out the objects of a bucket" in _reason(data, cluster={"workers": 2})


def test_a_run_that_is_repeated_looks_up_its_file_systems_again() -> None:
    job = _check({"a": f"efs://{EFS}/"})
    assert isinstance(job, Job)
    found = FileSystem(addresses={"us-east-1a": "10.0.0.4"}, groups=("sg-1",))
    job = replace(job, data={"a": replace(job.data["a"], file_system=found)})
    admitted = serialization.to_json(job)
    assert serialization.from_json(Job, admitted) == job
    again = check.check(written.as_file(admitted), source="job.yaml", bucket="b")
    assert isinstance(again, Job)
    assert again.data == {"a": replace(job.data["a"], file_system=None)}


def test_words_of_the_setting_are_read_as_they_are_written() -> None:
    for word in (f"{EFS}:read", f"{EFS}:write:{POINT}", f"fsx://{FSX}:write"):
        assert str(read_file_systems(word)[0]) == word
