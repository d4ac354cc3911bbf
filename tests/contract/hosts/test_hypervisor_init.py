"""A host's init behaves like systemd where host software relies on it."""

import base64
import os

import pytest

from tests.contract.conftest import eventually
from tests.contract.hosts.conftest import Hosts, wrote


def unit(name: str, text: str) -> str:
    """Return a shell line that writes a unit file."""
    coded = base64.b64encode(text.encode()).decode()
    return f"echo {coded} | base64 -d > /etc/systemd/system/{name}"


def test_an_enabled_unit_runs_at_every_boot(hosts: Hosts) -> None:
    host = hosts.one()
    text = (
        "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo boot >> /opt/boots'\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    hosts.run(host, unit("mark.service", text), "systemctl daemon-reload", "systemctl enable mark")
    hosts.stop_and_start(host)
    eventually(lambda: hosts.run(host, "cat /opt/boots || true") == "boot")


def test_a_unit_is_told_the_endpoint_and_the_region(shared: Hosts, pair: list[str]) -> None:
    told = shared.run(pair[0], "systemd-run --pipe env | grep ^AWS_ | sort | cut -d= -f1")
    assert told.splitlines() == ["AWS_ENDPOINT_URL", "AWS_REGION"]


def test_a_unit_that_fails_is_started_again_if_it_asks_for_it(shared: Hosts, pair: list[str]) -> None:
    text = "[Service]\nExecStart=/bin/sh -c 'echo x >> /opt/starts; exit 1'\nRestart=on-failure\nRestartSec=50ms\n"
    shared.run(pair[0], "rm -f /opt/starts", unit("again.service", text), "systemctl start again")
    # systemd's limit is five starts within ten seconds
    eventually(lambda: shared.run(pair[0], "systemctl is-active again || true") == "failed")
    assert shared.run(pair[0], "wc -l < /opt/starts") == "5"


ENDED = 'until [ -s /opt/once ] && [ "$(systemctl is-active once)" = inactive ]; do sleep 0.1; done'


def test_a_unit_that_ends_well_stays_down(shared: Hosts, pair: list[str]) -> None:
    text = "[Service]\nExecStart=/bin/sh -c 'echo x >> /opt/once'\nRestart=on-failure\n"
    shared.run(
        pair[0], "rm -f /opt/once", unit("once.service", text), "systemctl start once", ENDED, "sleep 0.5"
    )
    assert shared.run(pair[0], "wc -l < /opt/once; systemctl is-active once || true") == "1\ninactive"


def test_stopping_a_unit_asks_all_its_processes_and_waits_for_them(shared: Hosts, pair: list[str]) -> None:
    script = 'trap "echo asked >> /opt/asked; exit 0" TERM; echo > /opt/listens; while :; do sleep 0.05; done'
    text = f"[Service]\nExecStart=/bin/sh -c '(setsid sh -c \"sleep 1000\" &) ; {script}'\n"
    fresh = unit("asked.service", text), "rm -f /opt/asked /opt/listens"
    shared.run(pair[0], *fresh, "systemctl start asked", wrote("/opt/listens"))
    after = shared.run(pair[0], "systemctl stop asked", "cat /opt/asked", "pgrep -c -f '^sleep 1000' || true")
    assert after == "asked\n0"


def test_a_unit_that_does_not_listen_is_killed_after_its_time(shared: Hosts, pair: list[str]) -> None:
    script = 'trap "" TERM; echo deaf > /opt/deaf; while :; do sleep 0.05; done'
    text = f"[Service]\nExecStart=/bin/sh -c '{script}'\nTimeoutStopSec=1\n"
    shared.run(
        pair[0], "rm -f /opt/deaf", unit("deaf.service", text), "systemctl start deaf", wrote("/opt/deaf")
    )
    shared.run(pair[0], "systemctl stop deaf")
    assert shared.run(pair[0], "systemctl is-active deaf || true") == "failed"


def test_what_follows_a_units_end_has_its_time_too(shared: Hosts, pair: list[str]) -> None:
    script = 'trap "" TERM; echo deaf > /opt/deaf; while :; do sleep 0.05; done'
    text = f"[Service]\nExecStart=/bin/sh -c '{script}'\nExecStopPost=sleep 1000\nTimeoutStopSec=1\n"
    started = unit("endless.service", text), "systemctl start endless", wrote("/opt/deaf")
    shared.run(pair[0], "rm -f /opt/deaf", *started, "systemctl stop endless")
    assert shared.run(pair[0], "systemctl is-active endless || true") == "failed"


def test_work_started_as_a_unit_outlives_the_command_that_started_it(shared: Hosts, pair: list[str]) -> None:
    started = shared.send(pair[:1], "systemd-run --unit=outlives sleep 1000", "sleep 1000")
    eventually(lambda: shared.run(pair[0], "systemctl is-active outlives || true") == "active")
    shared.ssm.cancel_command(CommandId=started)
    shared.over(started, pair[0])
    assert shared.run(pair[0], "systemctl is-active outlives; systemctl stop outlives") == "active"


def test_a_template_unit_is_started_by_instance(shared: Hosts, pair: list[str]) -> None:
    text = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo %i > /opt/instance'\n"
    shared.run(pair[0], unit("job@.service", text), "systemctl start job@seven")
    assert shared.run(pair[0], "cat /opt/instance; systemctl is-active job@seven") == "seven\nactive"


def test_a_notifying_unit_is_active_when_it_says_so(shared: Hosts, pair: list[str]) -> None:
    program = (
        "import os, socket, time; time.sleep(0.5); open('/opt/ready', 'w').close(); "
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect(os.environ['NOTIFY_SOCKET']); "
        "s.send(b'READY=1'); time.sleep(1000)"
    )
    text = f'[Service]\nType=notify\nExecStart=python3 -c "{program}"\n'
    shared.run(pair[0], "rm -f /opt/ready", unit("ready.service", text))
    assert (
        shared.run(pair[0], "systemctl start ready", "ls /opt/ready", "systemctl stop ready") == "/opt/ready"
    )


def test_units_start_in_the_order_they_ask_for(shared: Hosts, pair: list[str]) -> None:
    first = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'sleep 0.3; echo first >> /opt/order'\n"
    second = (
        "[Unit]\nRequires=first.service\nAfter=first.service\n"
        "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo second >> /opt/order'\n"
    )
    shared.run(pair[0], "rm -f /opt/order", unit("first.service", first), unit("second.service", second))
    assert shared.run(pair[0], "systemctl start second", "cat /opt/order") == "first\nsecond"


def test_a_timer_starts_its_unit(shared: Hosts, pair: list[str]) -> None:
    service = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo x >> /opt/ticks'\n"
    timer = "[Timer]\nOnActiveSec=200ms\nOnUnitActiveSec=200ms\n"
    shared.run(
        pair[0], unit("tick.service", service), unit("tick.timer", timer), "systemctl start tick.timer"
    )
    eventually(lambda: int(shared.run(pair[0], "wc -l < /opt/ticks || echo 0")) >= 3)
    shared.run(pair[0], "systemctl stop tick.timer")


def test_a_shutdown_can_be_put_off(hosts: Hosts) -> None:
    host = hosts.one(InstanceInitiatedShutdownBehavior="terminate")
    hosts.run(host, "shutdown -P +1", "shutdown -c", "systemd-run --on-active=1 systemctl poweroff")
    hosts.until(host, "terminated")


def test_nothing_starts_on_a_host_that_is_going_down(hosts: Hosts) -> None:
    host = hosts.one()
    again = "[Service]\nExecStart=/bin/sh -c 'echo x >> /opt/starts'\nRestart=always\nRestartSec=3\n"
    slow = "[Service]\nExecStart=/bin/sh -c 'trap \"sleep 5; exit 0\" TERM; while :; do sleep 0.1; done'\n"
    started = "systemctl start slow again"
    hosts.run(host, unit("again.service", again), unit("slow.service", slow), started, wrote("/opt/starts"))
    hosts.stop_and_start(host)
    assert hosts.run(host, "cat /opt/starts") == "x"


def test_a_unit_has_its_last_word_before_its_host_is_down(hosts: Hosts) -> None:
    host = hosts.one()
    text = "[Service]\nExecStart=sleep 1000\nExecStopPost=/bin/sh -c 'sleep 1; echo over >> /opt/post'\n"
    hosts.run(host, unit("last.service", text), "systemctl start last")
    hosts.stop_and_start(host)
    assert hosts.run(host, "cat /opt/post") == "over"


def test_the_console_shows_what_units_print(hosts: Hosts) -> None:
    host = hosts.one()
    hosts.run(host, "systemd-run --unit=speaks --wait echo to the console")
    output = hosts.ec2.get_console_output(InstanceId=host)["Output"]
    assert "speaks.service: to the console" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="a host of an ordinary user knows one account")
def test_an_ordinary_account_may_look_at_units_and_do_nothing_to_them(shared: Hosts, pair: list[str]) -> None:
    nobody = "setpriv --reuid=65534 --clear-groups systemctl"
    shared.run(
        pair[0], unit("sleeps.service", "[Service]\nExecStart=/bin/sleep 1000\n"), "systemctl start sleeps"
    )
    assert shared.run(pair[0], f"{nobody} is-active sleeps") == "active"
    refused = shared.run(pair[0], f"{nobody} stop sleeps 2>&1 || true", f"{nobody} poweroff 2>&1 || true")
    assert refused.splitlines() == ["Interactive authentication required."] * 2
    assert shared.run(pair[0], "systemctl is-active sleeps; systemctl stop sleeps") == "active"


HOARDS = "import sys, time; kept = bytearray(64 << 20); print('hoards', flush=True); time.sleep(600)"
"""A program with more memory than any other on its host."""


def with_child(name: str, *more: str) -> list[str]:
    """Return shell lines that start a unit whose child process holds much memory."""
    program = f"import os, subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {HOARDS!r}]); time.sleep(600)"
    text = f"[Service]\nExecStart=/run/localcloud/bin/python3 /opt/{name}.py\n" + "\n".join(more)
    coded = base64.b64encode(program.encode()).decode()
    return [
        f"echo {coded} | base64 -d > /opt/{name}.py",
        unit(f"{name}.service", text),
        f"systemctl start {name}",
        f"until grep -q hoards /var/log/units/{name}.service.log; do sleep 0.05; done",
    ]


def memory_runs_out(hosts: Hosts, host: str) -> None:
    """Make the kernel kill the process with the most memory, and wait for its end."""
    hosts.cloud.command("fault", "oom", host, "--process", "bytearray")
    eventually(lambda: hosts.run(host, "pgrep -f '[b]ytearray' || echo gone").endswith("gone"))


@pytest.mark.parametrize("more", [(), ("OOMPolicy=stop",), ("OOMPolicy=kill", "KillMode=process")])
def test_a_unit_ends_when_memory_runs_out_in_a_child_of_it(
    shared: Hosts, pair: list[str], more: tuple[str, ...]
) -> None:
    shared.run(pair[0], *with_child("ends", *more))
    memory_runs_out(shared, pair[0])
    eventually(lambda: shared.run(pair[0], "systemctl is-active ends || true") == "failed")
    assert shared.run(pair[0], "systemctl show ends -p Result --value") == "oom-kill"
    assert shared.run(pair[0], "pgrep -f '/opt/[e]nds.py' || echo none") == "none"


def test_a_unit_that_ends_because_of_memory_is_started_again_as_after_any_failure(
    shared: Hosts, pair: list[str]
) -> None:
    shared.run(pair[0], *with_child("again-oom", "Restart=on-failure", "RestartSec=50ms"))
    main = "systemctl show again-oom -p MainPID --value"
    before = shared.run(pair[0], main)
    shared.cloud.command("fault", "oom", pair[0], "--process", "bytearray")
    eventually(lambda: shared.run(pair[0], main) not in (before, "0"))
    assert shared.run(pair[0], "systemctl is-active again-oom") == "active"
    shared.run(pair[0], "systemctl stop again-oom")


def test_a_unit_that_asks_for_it_outlives_a_child_that_ran_out_of_memory(
    shared: Hosts, pair: list[str]
) -> None:
    shared.run(pair[0], *with_child("stays", "OOMPolicy=continue"))
    before = shared.run(pair[0], "systemctl show stays -p MainPID --value")
    memory_runs_out(shared, pair[0])
    log = "grep -c 'killed by the OOM killer' /var/log/units/stays.service.log"
    assert shared.run(pair[0], log) == "1"
    assert shared.run(
        pair[0], "systemctl is-active stays; systemctl show stays -p MainPID --value"
    ).split() == [
        "active",
        before,
    ]
    shared.run(pair[0], "systemctl stop stays")


def test_an_xid_is_a_record_of_the_kernels_log_which_only_root_may_read(
    shared: Hosts, pair: list[str]
) -> None:
    shared.cloud.command("fault", "xid", pair[0], "48")
    eventually(lambda: "Xid" in shared.run(pair[0], "cat /dev/kmsg"))
    level, number, microseconds, rest = shared.run(pair[0], "tail -n 1 /dev/kmsg").split(",", 3)
    assert (level, number.isdigit(), microseconds.isdigit()) == ("3", True, True)
    assert rest.startswith("-;NVRM: Xid (PCI:0000:00:1e): 48, ")
    assert shared.run(pair[0], "stat -c '%a %U' /dev/kmsg") == "600 root"
    assert shared.run(pair[1], "cat /dev/kmsg") == ""


def test_any_message_can_be_written_into_the_kernels_log(shared: Hosts, pair: list[str]) -> None:
    shared.cloud.command("fault", "kernel", pair[0], "nvme nvme1: Disabling device after reset failure: -19")
    eventually(lambda: "-;nvme nvme1: Disabling device" in shared.run(pair[0], "cat /dev/kmsg"))


QUERY = "nvidia-smi --format=csv,noheader,nounits"


@pytest.mark.parametrize(
    ("kind", "fields", "prints"),
    [
        ("none", "query-gpu=clocks.sm,clocks_event_reasons.active", "2040, 0x0000000000000000"),
        ("thermal", "query-gpu=clocks.sm,clocks_event_reasons.active", "918, 0x0000000000000048"),
        ("power-brake", "query-gpu=clocks.sm,clocks_event_reasons.active", "1020, 0x0000000000000088"),
        ("link", "query-gpu=pcie.link.width.current,pcie.link.width.max", "4, 16"),
        ("ecc", "query-gpu=ecc.errors.uncorrected.volatile.total", "2"),
        ("remap-pending", "query-remapped-rows=remapped_rows.pending,remapped_rows.failure", "Yes, No"),
        ("remap-failed", "query-remapped-rows=remapped_rows.pending,remapped_rows.failure", "No, Yes"),
    ],
)
def test_nvidia_smi_prints_the_fault_of_a_gpu(
    shared: Hosts, pair: list[str], kind: str, fields: str, prints: str
) -> None:
    shared.cloud.command("fault", "gpu", pair[1], kind)
    eventually(lambda: shared.run(pair[1], f"{QUERY} --{fields} || true") == prints)


def test_nvidia_smi_refuses_a_query_with_an_unknown_field(shared: Hosts, pair: list[str]) -> None:
    shared.cloud.command("fault", "gpu", pair[1], "none")
    said = shared.run(pair[1], f"{QUERY} --query-gpu=clocks.sm,clocks_throttle_reasons.active || echo $?")
    assert said == 'Field "clocks_throttle_reasons.active" is not a valid field to query.\n2'


def test_a_unit_has_the_limits_that_it_asks_for_and_systemds_without(shared: Hosts, pair: list[str]) -> None:
    hard = int(shared.run(pair[0], "ulimit -Hn"))
    ask = "sh -c 'ulimit -Sn; ulimit -Hn; ulimit -Sc'"
    assert shared.run(pair[0], f"systemd-run --pipe {ask}").splitlines()[0] == "1024"
    given = shared.run(pair[0], f"systemd-run --pipe -p LimitNOFILE=4096:8192 -p LimitCORE=0 {ask}")
    assert given.splitlines() == [str(min(4096, hard)), str(min(8192, hard)), "0"]
    beyond = shared.run(pair[0], f"systemd-run --pipe -p LimitNOFILE=infinity {ask}")
    assert beyond.splitlines()[:2] == [str(hard)] * 2


def test_a_limit_that_there_is_not_is_named_in_the_log(shared: Hosts, pair: list[str]) -> None:
    text = "[Service]\nExecStart=/bin/true\nLimitNOFILE=many\n"
    shared.run(pair[0], unit("many.service", text), "systemctl start many || true")
    assert "not a limit: 'many'" in shared.run(pair[0], "cat /var/log/units/many.service.log")


def test_a_host_has_shared_memory_of_its_own_half_as_large_as_its_memory(
    shared: Hosts, pair: list[str]
) -> None:
    size = "df --output=size -k /dev/shm | tail -1"
    assert int(shared.run(pair[0], size)) == 8 << 20  # a g5.xlarge has 16 GiB
    shared.run(pair[0], "echo mine > /dev/shm/mine")
    assert shared.run(pair[1], "ls /dev/shm") == ""
