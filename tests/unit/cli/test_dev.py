"""Dev hosts on the command line: wrong arguments fail before any request."""

import pytest
from typer.testing import CliRunner

from trainyard.cli.app import app
from trainyard.exit_codes import ExitCode


@pytest.mark.parametrize("word", ["up", "down", "shell", "forward"])
@pytest.mark.parametrize("name", ["Mine", "m" * 37, "my host", "-", "9lives"])
def test_what_no_dev_host_can_be_called_is_refused_at_once(word: str, name: str) -> None:
    more = ["6006"] if word == "forward" else []
    done = CliRunner().invoke(app, ["dev", word, "--", name, *more])
    assert done.exit_code == ExitCode.USAGE
    assert "1 to 36 lower-case letters" in " ".join(done.stderr.split())


@pytest.mark.parametrize("ports", ["", "0", "65536", "6006:65536", "http", "6006:6007:6008"])
def test_what_is_no_port_is_refused_at_once(ports: str) -> None:
    done = CliRunner().invoke(app, ["dev", "forward", "mine", ports])
    assert done.exit_code == ExitCode.USAGE
    assert "use e.g. 6006" in " ".join(done.stderr.split())
