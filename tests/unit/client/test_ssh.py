"""Entries written for ssh. The user's own configuration stays."""

import subprocess
from pathlib import Path

import pytest

from trainyard.cli.commands.dev.cp import is_there
from trainyard.client.dev import ssh
from trainyard.client.dev.ssh import Files

PROXY = ("/opt/my tools/trainyard", "--yard", "Trainyard", "--profile", "50%", "dev", "proxy", "mine")
OWN = "Host bastion\n    User me\n"


def test_ssh_itself_reads_the_entry_as_it_is_meant(tmp_path: Path) -> None:
    files = Files.of("Trainyard", "mine", tmp_path / "a home")
    files.folder.mkdir(parents=True)
    files.config.write_text(ssh.entry(files, "ssm-user", PROXY))
    shown = subprocess.run(
        ["ssh", "-F", str(files.config), "-G", "trainyard-mine"], capture_output=True, text=True, check=True
    )
    said = dict(line.split(" ", 1) for line in shown.stdout.splitlines() if " " in line)
    assert said["user"] == "ssm-user"
    assert said["stricthostkeychecking"] == "true"
    assert said["userknownhostsfile"] == str(files.known_hosts)
    assert said["identityfile"] == str(files.key)
    assert said["proxycommand"] == (
        "'/opt/my tools/trainyard' --yard Trainyard --profile 50%% dev proxy mine"
    )


@pytest.mark.parametrize("before", [None, "", OWN, f"# mine\n\n{OWN}"])
def test_one_block_at_the_top_of_the_persons_config_and_the_rest_stays(
    tmp_path: Path, before: str | None
) -> None:
    files = Files.of("Trainyard", "mine", tmp_path)
    if before is not None:
        files.default_config.parent.mkdir()
        files.default_config.write_text(before)
    assert ssh.include(files)
    after = files.default_config.read_text()
    assert after.startswith(f"{ssh.BEGIN}\n{ssh.INCLUDE}\n{ssh.END}\n")
    assert after.endswith(before or "")
    assert files.default_config.stat().st_mode & 0o777 == 0o600
    assert not ssh.include(files), "a second time changes nothing"
    assert files.default_config.read_text() == after


def test_a_config_that_is_a_link_stays_one(tmp_path: Path) -> None:
    files = Files.of("Trainyard", "mine", tmp_path)
    (tmp_path / "dotfiles").write_text(OWN)
    files.default_config.parent.mkdir()
    files.default_config.symlink_to(tmp_path / "dotfiles")
    ssh.include(files)
    assert files.default_config.is_symlink()
    assert (tmp_path / "dotfiles").read_text().endswith(OWN)


def test_a_block_that_an_older_release_wrote_is_replaced_where_it_stands_now(tmp_path: Path) -> None:
    files = Files.of("Trainyard", "mine", tmp_path)
    files.default_config.parent.mkdir()
    files.default_config.write_text(f"{OWN}\n{ssh.BEGIN}\nInclude elsewhere\n{ssh.END}\n")
    assert ssh.include(files)
    assert files.default_config.read_text() == f"{ssh.BEGIN}\n{ssh.INCLUDE}\n{ssh.END}\n\n{OWN}\n"


@pytest.mark.parametrize(
    ("place", "there"),
    [("mine:src", True), ("mine:", True), ("./a:b", False), ("src", False), ("/x:y", False)],
)
def test_a_place_is_on_a_host_as_scp_has_it(place: str, there: bool) -> None:
    assert is_there(place) is there
