"""Disks: hosts have their image's content, equal content is stored once, and changes are separate."""

from pathlib import Path

import pytest

from tests.contract.conftest import Cloud, eventually, free_port
from tests.contract.hosts.conftest import REGISTER, Hosts, unique, wrote

MEBIBYTE = 1 << 20
BASE_IMAGE = "ami-0b5eacf05cf9e0001"


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def image_of(hosts: Hosts, instance_id: str, **more: object) -> str:
    made = hosts.ec2.create_image(InstanceId=instance_id, Name=unique("image"), **more)
    image = str(made["ImageId"])

    def is_available() -> bool:
        return bool(hosts.ec2.describe_images(ImageIds=[image])["Images"][0]["State"] == "available")

    eventually(is_available)
    return image


def test_a_host_of_an_image_has_what_the_image_was_made_of(hosts: Hosts) -> None:
    builder = hosts.one()
    hosts.run(
        builder,
        "mkdir -p /opt/trainyard/deep && echo baked > /opt/trainyard/deep/file",
        "ln -s deep/file /opt/trainyard/link && chmod 750 /opt/trainyard/deep && rm -r /srv",
    )
    image = image_of(hosts, builder)
    clone = hosts.one(ImageId=image)
    assert (
        hosts.run(clone, "cat /opt/trainyard/link; stat -c %a /opt/trainyard/deep; ls -d /srv || true")
        == "baked\n750"
    )


def test_what_a_host_changes_reaches_neither_its_image_nor_its_siblings(hosts: Hosts) -> None:
    builder = hosts.one()
    hosts.run(builder, "echo original > /opt/file")
    image = image_of(hosts, builder, NoReboot=True)
    first, second = hosts.launch(2, ImageId=image)
    hosts.run(first, "echo changed > /opt/file")
    hosts.run(builder, "echo later > /opt/file")
    assert hosts.run(second, "cat /opt/file") == "original"
    assert hosts.run(hosts.one(ImageId=image), "cat /opt/file") == "original"


def test_what_hosts_share_is_on_disk_once(hosts: Hosts) -> None:
    builder = hosts.one()
    hosts.run(builder, "head -c 20M /dev/urandom > /opt/large")
    image = image_of(hosts, builder)
    clones = hosts.launch(2, ImageId=image)
    again = image_of(hosts, clones[0])
    grandchild = hosts.one(ImageId=again)
    assert hosts.run(grandchild, "stat -c %s /opt/large") == str(20 * MEBIBYTE)
    state = hosts.cloud.state
    assert size_of(state / "images" / image) >= 20 * MEBIBYTE
    for folder in [state / "images" / again, *(state / "instances" / one for one in [*clones, grandchild])]:
        assert size_of(folder) < MEBIBYTE, folder


def test_hosts_outlive_the_image_they_came_from(hosts: Hosts) -> None:
    builder = hosts.one()
    hosts.run(builder, "echo here > /opt/file")
    image = image_of(hosts, builder)
    clone = hosts.one(ImageId=image)
    hosts.ec2.deregister_image(ImageId=image)
    assert hosts.run(clone, "cat /opt/file") == "here"
    hosts.ec2.terminate_instances(InstanceIds=[clone])
    hosts.until(clone, "terminated")
    eventually(lambda: not (hosts.cloud.state / "images" / image).exists())


def test_hosts_have_what_their_base_image_carries_and_install_from_nothing_else(tmp_path: Path) -> None:
    wheels, settings = tmp_path / "wheels", tmp_path / "settings.yaml"
    wheels.mkdir()
    (wheels / "a.whl").write_text("a wheel")
    carried = f"{{wheels: {wheels}, files: {{/etc/motd: welcome}}}}"
    settings.write_text(f"latencies: {{boot: 0, agent: 0}}\nimages: {{{BASE_IMAGE}: {carried}}}\n")
    cloud = Cloud(tmp_path / "state", free_port())
    cloud.command("up", "--detach", "--port", str(cloud.port), "--settings", str(settings))
    try:
        hosts = Hosts(cloud, "")
        hosts.profile = hosts.make_profile(REGISTER)
        builder = hosts.one(ImageId=BASE_IMAGE)
        for host in (builder, hosts.one(ImageId=image_of(hosts, builder))):
            assert hosts.run(host, "cat /opt/wheels/a.whl") == "a wheel"
            assert (
                hosts.run(host, "cat /etc/motd; head -1 /etc/trainyard/image.env")
                == "welcomeACCELERATOR=none"
            )
            assert hosts.run(host, "touch /opt/wheels/b 2>/dev/null || echo refused") == "refused"
            assert "no-index = true" in hosts.run(host, "cat /etc/uv/uv.toml")
            assert hosts.run(host, "python3 -m pip config list --global").splitlines() == [
                "global.disable-pip-version-check='true'",
                "global.find-links='/opt/wheels'",
                "global.no-index='true'",
            ]
        before = made(hosts)
        assert made(hosts) == before
        (wheels / "jupyterlab.whl").write_text("another wheel")
        assert made(hosts) > before, "a bake from it makes another image"
    finally:
        cloud.down()


def made(hosts: Hosts) -> str:
    """Return the creation time of the base image."""
    return str(hosts.ec2.describe_images(ImageIds=[BASE_IMAGE])["Images"][0]["CreationDate"])


@pytest.mark.parametrize("image_is_made_while", ["running", "stopped"])
def test_an_image_is_made_of_a_host_that_is(hosts: Hosts, image_is_made_while: str) -> None:
    builder = hosts.one()
    hosts.run(builder, "echo kept > /opt/file")
    if image_is_made_while == "stopped":
        hosts.ec2.stop_instances(InstanceIds=[builder])
        hosts.until(builder, "stopped")
    clone = hosts.one(ImageId=image_of(hosts, builder))
    assert hosts.run(clone, "cat /opt/file") == "kept"


def test_a_process_that_was_stopped_stays_so_when_an_image_is_made(hosts: Hosts) -> None:
    host = hosts.one()
    hosts.run(
        host,
        "(while :; do date +%s.%N; sleep 0.05; done > /opt/still) & echo $! > /opt/stopped; sleep 0.3; kill -STOP $!",
        "(while :; do date +%s.%N; sleep 0.05; done > /opt/goes-on) & echo $! > /opt/going",
        wrote("/opt/goes-on"),
    )
    image = str(hosts.ec2.create_image(InstanceId=host, Name=unique("image"), NoReboot=True)["ImageId"])
    eventually(lambda: hosts.ec2.describe_images(ImageIds=[image])["Images"][0]["State"] == "available")
    state = "cut -d' ' -f3 /proc/$(cat /opt/{0})/stat"
    assert hosts.run(host, state.format("stopped")) == "T"
    assert hosts.run(host, state.format("going")) != "T"
    assert hosts.run(hosts.one(ImageId=image), "test -s /opt/goes-on && echo there") == "there"
