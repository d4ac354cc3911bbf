"""The files that each host fetches, and their comparison with S3."""

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from training.host.bucket import Bucket, Object
from training.host.data.fetch import DataEntry, make_sure_all_get_some, named_files
from training.host.data.integrity import difference
from training.host.data.journal import Journal
from training.host.data.sharding import All, Nothing, Share, due, shares
from training.host.data.transfer import OutputLine, make_sure_they_fit, parse_line, progress
from training.host.errors import HostTrouble
from training.host.program.packages import error_lines
from trainyard.core.model.program import Sharding
from trainyard.protocol.cluster import Assignment, Cluster, Role, Strategy


def item(key: str, size: int = 10, etag: str = "e", changed: str = "2026-11-20T00:00:00+00:00") -> Object:
    return Object(key, size, etag, changed)


def cluster(strategy: str, *roles: tuple[str, int]) -> Cluster:
    assignments = tuple(
        Assignment(f"i-{role}-{index}", Role(role), index, "10.0.1.5") for role, index in roles
    )
    return Cluster(
        run="r",
        attempt=1,
        strategy=Strategy(strategy),
        assignments=assignments,
        deadline=datetime(2026, 11, 20, tzinfo=UTC),
    )


TEAM = cluster("multi_worker", ("chief", 0), ("worker", 1), ("worker", 2))
SERVED = cluster("parameter_server", ("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("evaluator", 0))
BETWEEN_GRAPH = cluster("parameter_server", ("chief", 0), ("worker", 1), ("ps", 0))
ALONE = cluster("single", ("chief", 0))
DUE = [
    # name, cluster, role, index, files to fetch
    ("the chief of equals is worker 0", TEAM, "chief", 0, Share(0, 3)),
    ("the others follow", TEAM, "worker", 2, Share(2, 3)),
    ("a single host has all the shares there are", ALONE, "chief", 0, Share(0, 1)),
    ("a chief that only schedules trains nothing", SERVED, "chief", 0, Nothing()),
    ("nor does a parameter server", SERVED, "ps", 0, Nothing()),
    ("its workers count from 0", SERVED, "worker", 1, Share(1, 2)),
    ("a chief that is worker 0 has its share", BETWEEN_GRAPH, "chief", 0, Share(0, 2)),
    ("and so has worker 1", BETWEEN_GRAPH, "worker", 1, Share(1, 2)),
    ("an evaluator looks at everything", SERVED, "evaluator", 0, All()),
]


@pytest.mark.parametrize(
    ("of", "role", "index", "expected"), [row[1:] for row in DUE], ids=[row[0] for row in DUE]
)
def test_who_gets_what_of_a_shared_entry(of: Cluster, role: str, index: int, expected: object) -> None:
    assignment = of.assignment(f"i-{role}-{index}")
    assert assignment is not None
    assert due(of, assignment) == expected


SHARES = [
    # name, sizes in the order of the file names, workers, indices of each worker's files
    ("equal files are dealt out one after the other", [5] * 7, 3, [[0, 3, 6], [1, 4], [2, 5]]),
    ("the largest go first, to who has least", [1, 9, 4, 5], 2, [[1, 0], [3, 2]]),
    ("an empty file takes no worker's place", [0, 5, 5], 2, [[1, 0], [2]]),
    ("every worker gets a file", [100, 1, 1], 3, [[0], [1], [2]]),
    ("one worker has all", [3, 2, 1], 1, [[0, 1, 2]]),
]


@pytest.mark.parametrize(
    ("sizes", "workers", "expected"), [row[1:] for row in SHARES], ids=[row[0] for row in SHARES]
)
def test_files_are_shared_out(sizes: list[int], workers: int, expected: list[list[int]]) -> None:
    files = [item(f"data/{number:03d}", size) for number, size in enumerate(sizes)]
    wanted = [[files[number] for number in sorted(share)] for share in expected]
    assert shares(files, workers) == wanted
    assert shares(reversed(files), workers) == wanted


def test_every_file_has_one_worker_and_the_shares_are_balanced() -> None:
    files = [item(f"data/{number:03d}", (number * 7919) % 100 + 1) for number in range(200)]
    shared = shares(files, 7)
    assert sorted(one.key for share in shared for one in share) == [one.key for one in files]
    totals = [sum(one.size for one in share) for share in shared]
    assert max(totals) - min(totals) <= 100


def test_fewer_files_than_workers_is_refused_with_both_numbers() -> None:
    entry = DataEntry("train", "s3://b/data/train/", Sharding.FILE)
    make_sure_all_get_some(entry, [item("a"), item("b")], workers=2)
    with pytest.raises(HostTrouble, match=r"data\.train: 3 workers share 2 files") as refused:
        make_sure_all_get_some(entry, [item("a"), item("b"), item("_SUCCESS", 0)], workers=3)
    assert refused.value.final


def test_too_little_disk_is_said_with_the_numbers_of_all(tmp_path: Path) -> None:
    make_sure_they_fit({"data.train": 1, "data.test": 0}, tmp_path / "not" / "yet")
    with pytest.raises(
        HostTrouble,
        match=r"data\.train 8000000\.0 GB and data\.test 1000000\.0 GB: 9000000\.0 GB .* are free",
    ) as no:
        make_sure_they_fit({"data.train": 8 * 10**15, "data.test": 10**15}, tmp_path / "not" / "yet")
    assert no.value.final
    assert re.search(r"write hardware\.disk_gib: \d+0 into the job file, stream the data", no.value.reason)


def md5(body: bytes) -> str:
    return hashlib.md5(body).hexdigest()


def etag_of(*parts: bytes) -> str:
    return f"{hashlib.md5(b''.join(hashlib.md5(part).digest() for part in parts)).hexdigest()}-{len(parts)}"


WHOLE = b"0123456789"
SUMS = [
    # name, the object's ETag, sizes of the parts, whether the file equals the object
    ("put in one piece", md5(WHOLE), [], True),
    ("other bytes", md5(b"other bytes"), [], False),
    ("even parts", etag_of(b"0123", b"4567", b"89"), [4, 4, 2], True),
    ("parts of any size", etag_of(b"0123456", b"7", b"89"), [7, 1, 2], True),
    ("one part", etag_of(WHOLE), [10], True),
    ("other bytes in parts", etag_of(b"0123", b"4567", b"88"), [4, 4, 2], False),
]


@pytest.mark.parametrize(("etag", "parts", "same"), [row[1:] for row in SUMS], ids=[row[0] for row in SUMS])
def test_a_file_is_compared_with_s3s_sums(tmp_path: Path, etag: str, parts: list[int], same: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(WHOLE)
    found = difference(path, item("k", 10, etag), lambda count: parts[:count], lambda: True)
    assert (found is None) == same
    assert same or etag in str(found)


def test_a_file_of_another_size_is_told_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(WHOLE)
    assert (
        difference(path, item("k", 11, md5(WHOLE)), lambda count: [], lambda: True)
        == "10 bytes instead of 11"
    )


@pytest.mark.parametrize("etag", ["0f" * 16, f"{'0f' * 16}-3"])
def test_what_a_kms_key_encrypts_is_told_by_its_size_alone(tmp_path: Path, etag: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(WHOLE)
    asked: list[int] = []

    def part_sizes(count: int) -> list[int]:
        asked.append(count)
        return [4, 4, 2][:count]

    assert difference(path, item("k", 10, etag), part_sizes, lambda: False) is None
    assert difference(path, item("k", 11, etag), part_sizes, lambda: False) == "10 bytes instead of 11"
    assert asked in ([], [1]), "a request for every part would tell nothing"


def test_a_journal_knows_what_is_here_after_a_restart(tmp_path: Path) -> None:
    file, written = tmp_path / "a.rec", tmp_path / "journals" / "train.jsonl"
    file.write_bytes(WHOLE)
    Journal(written).note("a.rec", item("a"), file)
    with written.open("a") as journal:
        journal.write('["b.rec", "e"')  # the agent was killed while it wrote
    journal_after = Journal(written)
    assert journal_after.holds("a.rec", item("a"), file)
    assert not journal_after.holds("b.rec", item("b"), file)
    assert not journal_after.holds("a.rec", item("a", etag="f"), file)
    assert not journal_after.holds("a.rec", item("a", changed="2026-11-20T00:00:01+00:00"), file)
    assert not journal_after.holds("a.rec", item("a"), tmp_path / "gone")
    file.write_bytes(b"9876543210")
    assert not journal_after.holds("a.rec", item("a"), file)


LINES = [
    # line of s5cmd, path, message, code
    (
        '{"operation":"cp","success":true,"source":"s3://b/k","destination":"/d/7","object":{"size":1}}',
        Path("/d/7"),
        None,
        "",
    ),
    (
        '{"operation":"cp","command":"cp s3://b/a k /d/7","error":"NoSuchKey:  status code: 404, host id:"}',
        Path("/d/7"),
        "NoSuchKey: status code: 404, host id:",
        "NoSuchKey",
    ),
    ("panic: out of memory\n", None, "panic: out of memory", "panic"),
]


@pytest.mark.parametrize(("line", "path", "complaint", "code"), LINES)
def test_s5cmd_is_understood(line: str, path: Path | None, complaint: str | None, code: str) -> None:
    said = parse_line(line)
    assert (said, said.code) == (OutputLine(path, complaint), code)


def test_progress_is_said_in_gigabytes_and_speed() -> None:
    assert progress(12 * 10**8, 8 * 10**9, 21 * 10**8, 10) == "1.2 of 8.0 GB, 210 MB/s"
    assert progress(5 * 10**8, 8 * 10**9, -(10**8), 10) == "0.5 of 8.0 GB, 0 MB/s"
    assert progress(8 * 10**9, 8 * 10**9, 0, 10) == "all 8.0 GB have arrived; verifying the checksums"


PIP = [
    # name, output of pip, informative lines
    (
        "a version that does not exist",
        (
            "WARNING: Location '/x' is ignored\n"
            "ERROR: Could not find a version that satisfies the requirement six==0.0.1 (from versions: none)\n"
            "ERROR: No matching distribution found for six==0.0.1\n[notice] A new release of pip is available\n"
        ),
        [
            "ERROR: Could not find a version that satisfies the requirement six==0.0.1 (from versions: none)",
            "ERROR: No matching distribution found for six==0.0.1",
        ],
    ),
    (
        "a package that does not build",
        (
            "  error: subprocess-exited-with-error\n\n"
            "  \N{MULTIPLICATION SIGN} python setup.py egg_info did not run successfully.\n"
            "  │ exit code: 1\n  ╰─> [1 lines of output]\n      ModuleNotFoundError: No module named 'x'\n"
        ),
        [
            "error: subprocess-exited-with-error",
            "\N{MULTIPLICATION SIGN} python setup.py egg_info did not run successfully.",
            "╰─> [1 lines of output]",
            "ModuleNotFoundError: No module named 'x'",
        ],
    ),
    ("no error is named", "WARNING: a\none\ntwo\n", ["one", "two"]),
]


@pytest.mark.parametrize(("said", "told"), [row[1:] for row in PIP], ids=[row[0] for row in PIP])
def test_what_pip_says_is_told_without_its_noise(said: str, told: list[str]) -> None:
    assert error_lines(said) == told


@pytest.mark.parametrize("other", ["data/x/a//b", "data/x/a/./b", "data/x//a/b"])
def test_two_objects_that_would_be_one_file_are_both_named(other: str) -> None:
    files = [item("data/x/a/b"), item("data/x/c"), item(other)]
    with pytest.raises(HostTrouble) as refused:
        named_files(DataEntry("train", "s3://bucket/data/x/", Sharding.NONE), files, Bucket(None, "bucket"))
    assert refused.value.final
    assert f"s3://bucket/data/x/a/b and s3://bucket/{other} are two objects" in refused.value.reason
