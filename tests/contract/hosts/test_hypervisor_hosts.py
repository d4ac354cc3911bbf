"""Hosts are isolated machines with an address, a disk and processes, and end without a trace."""

import pwd

from tests.contract.conftest import DECOY, Cloud, eventually
from tests.contract.hosts.conftest import Hosts
from tests.contract.hosts.processes import processes_of

PROCESSES = "cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '"


def test_a_host_has_the_address_that_ec2_says(shared: Hosts, pair: list[str]) -> None:
    address = shared.instance(pair[0])["PrivateIpAddress"]
    assert shared.run(pair[0], "hostname") == "ip-" + address.replace(".", "-")
    connect = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.connect(('10.9.9.9', 1))"
    assert shared.run(pair[0], f'python3 -c "{connect}; print(s.getsockname()[0])"') == address


def test_hosts_reach_each_other(shared: Hosts, pair: list[str]) -> None:
    first, second = pair
    address = shared.instance(first)["PrivateIpAddress"]
    serve = (
        "import socket; s = socket.create_server(('', 2222)); c, who = s.accept(); c.sendall(who[0].encode())"
    )
    listening = shared.send([first], f'python3 -c "{serve}"')
    ask = f"import socket; print(socket.create_connection(('{address}', 2222)).recv(100).decode())"
    again = f'for i in 1 2 3 4 5 6 7 8 9; do python3 -c "{ask}" 2>/dev/null && break; sleep 0.2; done'
    assert shared.run(second, again) == shared.instance(second)["PrivateIpAddress"]
    assert shared.over(listening, first)["Status"] == "Success"


def test_a_host_keeps_its_connections_while_others_come_and_go(
    shared: Hosts, pair: list[str], hosts: Hosts
) -> None:
    ask = 'curl -s -o /dev/null -m 2 -w "%{http_code}" "$AWS_ENDPOINT_URL/"'
    answers = []
    for _ in range(3):  # the random MAC addresses of new hosts are sometimes lower than the bridge's
        answers.append(shared.run(pair[0], ask))
        hosts.launch(4)
        answers.append(shared.run(pair[0], ask))
        hosts.terminate_all()
    assert answers == ["403"] * 6


def test_the_next_holder_of_an_address_is_reached_at_once(
    shared: Hosts, pair: list[str], hosts: Hosts
) -> None:
    def reach(address: str) -> str:
        """Return a command that tests an address. A refusal comes from the host itself, silence from no host."""
        knock = f"import socket; socket.create_connection(('{address}', 9), 1)"
        return shared.run(pair[0], f'python3 -c "{knock}" 2>&1 | tail -n 1')

    first = hosts.one()
    address = hosts.instance(first)["PrivateIpAddress"]
    subnet = hosts.instance(first)["SubnetId"]
    assert "refused" in reach(address)
    hosts.terminate_all()
    hosts.until(first, "terminated")
    hosts.one(SubnetId=subnet, PrivateIpAddress=address)
    assert "refused" in reach(address)


SEES_PACKAGES = f"""
import pwd
import importlib.util, os, pathlib, sys
folders = [each for each in map(pathlib.Path, sys.path) if each.name in ("site-packages", "dist-packages")]
seen = [str(path) for folder in folders if folder.is_dir() for path in folder.iterdir() if path.name[:3] != "pip"]
seen += [name for name in os.environ if name.startswith("PYTHON")]
seen += [name for name in ("{DECOY}",) if importlib.util.find_spec(name)]
print(seen)
"""


def test_a_host_has_none_of_the_packages_that_are_installed_on_the_machine(
    shared: Hosts, pair: list[str]
) -> None:
    interpreters = "$(ls -d /usr/bin/python3 /usr/local/bin/python3 /run/localcloud/bin/python3 2>/dev/null)"
    ask = f"for python in {interpreters}; do $python -c '{SEES_PACKAGES}'; done"
    assert set(shared.run(pair[0], ask).splitlines()) == {"[]"}


def test_an_environment_made_on_a_host_has_no_package_but_its_own(shared: Hosts, pair: list[str]) -> None:
    make = "cd $(mktemp -d) && python3 -m venv --without-pip its-own"
    assert shared.run(pair[0], f"{make} && its-own/bin/python -c '{SEES_PACKAGES}'") == "[]"


def test_nothing_leads_out_of_the_hosts_network(shared: Hosts, pair: list[str]) -> None:
    leave = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    assert "Network is unreachable" in shared.run(pair[0], f'python3 -c "{leave}" 2>&1 || true')


def test_a_host_reaches_the_endpoint_it_is_told(shared: Hosts, pair: list[str]) -> None:
    answer = shared.run(pair[0], 'curl -s -o /dev/null -w "%{http_code}" "$AWS_ENDPOINT_URL/"')
    assert answer == "403"


def test_a_host_cannot_steer_the_local_cloud(shared: Hosts, pair: list[str]) -> None:
    answer = shared.run(
        pair[0], 'curl -s -o /dev/null -w "%{http_code}" "$AWS_ENDPOINT_URL/_localcloud/status"'
    )
    assert answer == "403"


def test_a_host_sees_only_its_own_processes(shared: Hosts, pair: list[str]) -> None:
    first, second = pair
    waiting = shared.send([first], "sleep 1234")
    eventually(lambda: "sleep 1234" in shared.run(first, PROCESSES))
    assert "sleep 1234" not in shared.run(second, PROCESSES)
    assert int(shared.run(second, "ls -d /proc/[0-9]* | wc -l")) < 12
    shared.ssm.cancel_command(CommandId=waiting)


def test_a_host_cannot_see_another_hosts_disk(shared: Hosts, pair: list[str]) -> None:
    first, second = pair
    shared.run(first, "echo mine > /opt/only-here")
    assert shared.run(second, "find / -xdev -name only-here | wc -l") == "0"
    assert shared.run(second, "ls /opt/only-here 2>&1 || true").endswith("No such file or directory")


def test_a_host_has_message_queues_of_its_own_where_ubuntu_mounts_them(
    shared: Hosts, pair: list[str]
) -> None:
    first, second = pair
    made = "import ctypes; print(ctypes.CDLL('librt.so.1').mq_open(b'/mine', 66, 0o600, None) >= 0)"
    assert shared.run(first, f'python3 -c "{made}"') == "True"
    assert shared.run(first, "ls /dev/mqueue") == "mine"
    assert shared.run(second, "ls /dev/mqueue") == ""


def test_a_hosts_root_cannot_reach_around_its_machine(shared: Hosts, pair: list[str]) -> None:
    for attempt in (
        "mknod /dev/disk b 254 0",
        "mount -t tmpfs none /mnt",
        "touch /usr/bin/mine",
        "echo 1 > /proc/sys/kernel/panic",
        "ip address add 10.0.0.250/32 dev eth0",
        "unshare --mount true",
    ):
        assert shared.run(pair[0], f"({attempt}) 2>/dev/null && echo done || echo refused") == "refused", (
            attempt
        )


def test_a_terminated_host_leaves_no_process_and_no_disk(hosts: Hosts) -> None:
    gone = hosts.one()
    hosts.run(gone, "setsid sleep 1000 >/dev/null 2>&1 &", "echo x > /opt/x")
    assert processes_of(hosts.cloud, gone)
    hosts.ec2.terminate_instances(InstanceIds=[gone])
    hosts.until(gone, "terminated")
    assert processes_of(hosts.cloud, gone) == []
    assert not (hosts.cloud.state / "instances" / gone).exists()


def test_a_stopped_host_keeps_its_disk_and_only_that(hosts: Hosts) -> None:
    kept = hosts.one()
    hosts.run(kept, "echo before > /opt/mark", "echo x > /tmp/mark", "echo x > /run/mark")
    hosts.ec2.stop_instances(InstanceIds=[kept])
    hosts.until(kept, "stopped")
    assert processes_of(hosts.cloud, kept) == []
    hosts.ec2.start_instances(InstanceIds=[kept])
    hosts.until(kept, "running")
    hosts.registered([kept])
    assert hosts.run(kept, "cat /opt/mark; ls /tmp/mark /run/mark 2>/dev/null || true") == "before"


def test_a_host_that_powers_itself_off_stops(hosts: Hosts) -> None:
    off = hosts.one(InstanceInitiatedShutdownBehavior="stop")
    hosts.send([off], "systemctl poweroff")
    hosts.until(off, "stopped")
    assert "powering off: systemctl poweroff" in hosts.ec2.get_console_output(InstanceId=off).get(
        "Output", ""
    )


def test_a_host_whose_power_fails_ends_at_once(hosts: Hosts) -> None:
    killed = hosts.one()
    hosts.send([killed], "sleep 1000")
    hosts.cloud.command("fault", "kill", killed)
    hosts.until(killed, "terminated")
    assert processes_of(hosts.cloud, killed) == []


def test_hosts_end_with_the_local_cloud(own_cloud: Cloud) -> None:
    made = Hosts(own_cloud, "")
    made.profile = made.make_profile({"Effect": "Allow", "Action": "ssm:*", "Resource": "*"})
    left = made.launch(2)
    assert all(processes_of(own_cloud, one) for one in left)
    own_cloud.down()
    assert all(processes_of(own_cloud, one) == [] for one in left)
    assert all((own_cloud.state / "instances" / one / "disk.json").exists() for one in left)


def test_no_account_of_the_machine_has_the_number_of_one_on_a_host(shared: Hosts, pair: list[str]) -> None:
    """Test the user IDs. An account of the machine with the same ID could signal and read the host's processes."""
    made = "useradd --system one-of-system && useradd two-of-people && id -u one-of-system && id -u two-of-people"
    numbers = [int(line) for line in shared.run(pair[0], made).splitlines() if line.isdigit()]
    assert len(numbers) == 2
    assert not set(numbers) & {each.pw_uid for each in pwd.getpwall()}
    assert all(70_000 <= number < 90_000 for number in numbers)
