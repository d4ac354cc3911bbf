"""A run whose program and data are in another bucket."""

import pytest

from tests.e2e.conftest import OTHER_BUCKET
from tests.e2e.runs import Runs
from tests.support import quick
from trainyard.client.jobs.source import pack_folder

PROGRAM, DATA = f"s3://{OTHER_BUCKET}/digits/steps.tar.gz", f"s3://{OTHER_BUCKET}/digits/few/"


@pytest.fixture
def elsewhere(runs: Runs) -> None:
    """Create another bucket. The yard may read one of its folders."""
    s3 = runs.yard.session.client("s3")
    s3.create_bucket(Bucket=OTHER_BUCKET)
    s3.put_object(Bucket=OTHER_BUCKET, Key="digits/steps.tar.gz", Body=pack_folder(quick.PROGRAMS))
    s3.put_object(Bucket=OTHER_BUCKET, Key="digits/few/numbers.txt", Body=b"1\n2\n3\n")
    s3.put_object(Bucket=OTHER_BUCKET, Key="private/numbers.txt", Body=b"4\n")


@pytest.mark.usefixtures("elsewhere")
def test_a_run_reads_its_program_and_its_data_in_another_bucket(runs: Runs) -> None:
    run = runs.run(runs.job("from-elsewhere", program={"source": PROGRAM}, data={"few": DATA}))
    assert run.succeeded, run.why()
    assert not [key for key in run.keys if "few" in key]


@pytest.mark.usefixtures("elsewhere")
def test_what_the_yard_does_not_read_is_refused_with_the_line_that_lists_it(runs: Runs) -> None:
    run = runs.run(runs.job("not-listed", data={"few": f"s3://{OTHER_BUCKET}/private/"}))
    assert run.execution.error == "JobRefused"
    listed = f"data_buckets={OTHER_BUCKET}/digits/,{OTHER_BUCKET}/private/"
    assert f"yard deploy -c {listed}" in run.why()
