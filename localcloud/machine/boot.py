"""The firmware of a host: create its namespaces, connect its network, mount its disk, and become its init.

Runs as a separate process with only the standard library (`hypervisor.hosts` starts `main` with the control socket's
descriptor). All mounts live in the host's own mount namespace and vanish with it.

The control socket carries JSON messages. The server sends the specification, this program answers `namespaces`, and the
server plugs in the network card and sends `wired`. After that the socket belongs to init.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import shlex
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from localcloud.machine.kernel import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MNT_DETACH,
    MS_NODEV,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    PR_SET_PDEATHSIG,
    KernelError,
    below,
    bind,
    check_result,
    drop_capabilities,
    enter,
    lend,
    lend_system,
    libc,
    make_devices,
    make_read_only,
    mount,
)

KEPT_CAPABILITIES = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7,
    "SETPCAP": 8, "NET_BIND_SERVICE": 10, "SYS_CHROOT": 18, "SYS_PTRACE": 19, "SYS_NICE": 23, "SETFCAP": 31,
}  # fmt: skip
"""Capabilities of a host's root: those that act inside the machine, not on its surroundings.

Excluded are mounts, devices, network settings (the address identifies the host), and file handles into other disks.
"""

INSTALLED_PACKAGES = ("lib/python3*/dist-packages", "lib*/python3*/site-packages")
"""Package folders below an interpreter's prefix."""
ANYWHERE = "0.0.0.0"  # noqa: S104 - the gateway field of a route that has none
PRIVATE_NETWORKS = (("10.0.0.0", 8), ("172.16.0.0", 12), ("192.168.0.0", 16), ("100.64.0.0", 10))
DESCRIPTORS = 1024
"""Default limit of open files of a program, as on Ubuntu. The server's own limit is higher."""
SHIMS = {
    **dict.fromkeys(
        ("systemctl", "systemd-run", "journalctl", "shutdown", "poweroff", "reboot", "halt"), "systemctl"
    ),
    "nft": "nft",
    "mount-s3": "mount_s3",
    "mount.efs": "mount_efs",
    "mount.lustre": "mount_lustre",
    "umount": "mounting",
}
"""Commands, each with the module of the guest package that implements it."""

DATA_CHANNEL = Path(__file__).parents[2] / "trainyard" / "datachannel"
"""The protocol of sessions, installed beside the guest package in every host."""
START = (
    "import sys; sys.path.insert(0, '/run/localcloud'); from localcloud.machine.guest.{0} import main; main()"
)
"""Runs a module of the guest package with only that package and the standard library on the path."""


class HostFile(TypedDict):
    """Contents of host.json, which the host's init reads and removes."""

    environment: dict[str, str]
    user_data: str | None
    instance_id: str


class Specification(TypedDict):
    """The hypervisor's order to boot a host."""

    instance_id: str
    state: str
    """The local cloud's state folder."""
    layers: Sequence[str]
    """Layers of the host's disk, relative to the state folder, nearest first."""
    hostname: str
    private_ip: str
    neighbours: list[str]
    """Addresses on the bridge that the host reaches besides other hosts."""
    python: str
    python_home: str
    wheels: str | None
    """Folder of this machine that is mounted at /opt/wheels."""
    shared_memory_mib: int
    names: str
    """Lines for /etc/hosts besides the host's own."""
    trusted: str
    """File of the authorities that hosts trust."""
    host: HostFile


# --- network card ---

SIOCADDRT, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x890B, 0x8914, 0x8916, 0x891C
IFF_UP, RTF_UP, RTF_HOST = 0x1, 0x1, 0x4


def address(text: str) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))


def netmask(prefix: int) -> str:
    return socket.inet_ntoa(struct.pack("!I", (0xFFFFFFFF << (32 - prefix)) & 0xFFFFFFFF))


def wire(private_ip: str, neighbours: list[str]) -> None:
    """Set up loopback, the host's address, and routes to other hosts and `neighbours` on the bridge.

    No route leads out.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as card:

        def set_up(name: str) -> None:
            fcntl.ioctl(card, SIOCSIFFLAGS, struct.pack("=16sH14x", name.encode(), IFF_UP))

        set_up("lo")
        fcntl.ioctl(card, SIOCSIFADDR, struct.pack("=16s16s", b"eth0", address(private_ip)))
        fcntl.ioctl(card, SIOCSIFNETMASK, struct.pack("=16s16s", b"eth0", address(netmask(32))))
        set_up("eth0")
        ways = [*PRIVATE_NETWORKS, *((neighbour, 32) for neighbour in neighbours)]
        for network, prefix in ways:
            add_route(card, network, prefix)
    # ping without CAP_NET_RAW
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 0")


def add_route(card: socket.socket, network: str, prefix: int) -> None:
    device = ctypes.create_string_buffer(b"eth0")
    flags = RTF_UP | (RTF_HOST if prefix == 32 else 0)
    # struct rtentry: pad, dst, gateway, genmask, flags, ..., dev (a pointer), ...
    entry = struct.pack(
        "@L16s16s16sHhLLhPLLH",
        0, address(network), address(ANYWHERE), address(netmask(prefix)), flags, 0, 0, 0, 0,
        ctypes.addressof(device), 0, 0, 0,
    )  # fmt: skip
    fcntl.ioctl(card, SIOCADDRT, entry)


# --- disk ---


def in_user_namespace() -> bool:
    return Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]


def mount_disk(spec: Specification) -> Path:
    """Mount the host's root at `instances/<id>/root` and return it.

    Paths are relative, because mount options hold 4096 bytes and no colon.
    """
    os.chdir(spec["state"])
    home = Path("instances", spec["instance_id"])
    options = f"lowerdir={':'.join(spec['layers'])},upperdir={home}/upper,workdir={home}/work"
    if in_user_namespace():
        options += ",userxattr"
    mount("overlay", home / "root", "overlay", options=options)
    return Path(spec["state"]) / home / "root"


def mount_system(root: Path, spec: Specification) -> None:
    """Mount the machine's programs and libraries read-only. /usr/local stays the host's unless it has Python."""
    python = Path(spec["python_home"])
    mount("tmpfs", below(root, "/run"), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    kept_local = below(root, "/run/usr-local")
    bind(below(root, "/usr/local"), kept_local)
    bind(Path("/usr"), root / "usr", read_only=True)
    if not python.is_relative_to("/usr/local") and (root / "usr/local").is_dir():
        bind(kept_local, root / "usr/local")
    check_result(libc.umount2(bytes(kept_local), MNT_DETACH), "set /usr/local free")
    kept_local.rmdir()
    lend_system(root)
    if not python.is_relative_to("/usr"):
        lend(root, python, python)
        open_way(root, python)
    for prefix in {Path("/usr"), python}:
        hide_packages(root, prefix)
    if spec["wheels"]:
        lend(root, Path(spec["wheels"]), Path("/opt/wheels"))


def hide_packages(root: Path, prefix: Path) -> None:
    """Hide the machine's packages of an interpreter below `prefix`, except pip, which AWS's base images have too.

    A program must not depend on packages that a user installed on the machine.
    """
    for pattern in INSTALLED_PACKAGES:
        for packages in prefix.glob(pattern):
            inside = root / packages.relative_to("/")
            mount("tmpfs", inside, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
            for kept in (*packages.glob("pip"), *packages.glob("pip-*")):
                lend(root, kept, kept)
            make_read_only(inside)


def open_way(root: Path, path: Path) -> None:
    """Let every account of the host pass to `path`, which may be in a user's home folder on the machine."""
    for folder in path.parents:
        inside = root / folder.relative_to("/")
        if folder != Path("/"):
            inside.chmod(inside.stat().st_mode | 0o111)


def mount_own(root: Path, spec: Specification) -> None:
    """Mount the host's own /proc, /sys, /dev and /tmp."""
    mount("proc", below(root, "/proc"), "proc", MS_NOSUID | MS_NODEV)
    mount("sysfs", below(root, "/sys"), "sysfs", MS_NOSUID | MS_NODEV)
    # a host's root must not write settings of the machine's kernel
    make_read_only(root / "sys")
    for name in ("sys", "sysrq-trigger"):
        path = root / "proc" / name
        if path.exists():
            bind(path, path, read_only=True)
    dev = below(root, "/dev")
    mount("tmpfs", dev, "tmpfs", MS_NOSUID, "mode=755")
    make_devices(dev)
    for folder, kind, options in (
        ("shm", "tmpfs", f"mode=1777,size={spec['shared_memory_mib']}m"),
        ("pts", "devpts", "newinstance,ptmxmode=0666,mode=620"),
        ("mqueue", "mqueue", ""),
    ):
        (dev / folder).mkdir()
        mount(kind, dev / folder, kind, MS_NOSUID, options)
    (dev / "kmsg").touch(mode=0o600)  # the kernel's log, with the messages of `fault xid` and `fault kernel`
    (dev / "ptmx").symlink_to("pts/ptmx")
    for name, descriptor in (("fd", ""), ("stdin", "0"), ("stdout", "1"), ("stderr", "2")):
        (dev / name).symlink_to(Path("/proc/self/fd", descriptor))
    bind(Path(spec["state"]) / "instances" / spec["instance_id"] / "tmp", below(root, "/tmp"))  # noqa: S108 - the host's own


def install_init(root: Path, spec: Specification) -> None:
    """Install init in /run/localcloud, and its commands in place of the machine's."""
    home = below(root, "/run/localcloud")
    for folder in ("bin", "notify"):
        (home / folder).mkdir()
    package = home / "localcloud" / "machine" / "guest"
    shutil.copytree(Path(__file__).with_name("guest"), package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("localcloud", "localcloud/machine"):
        (home / folder / "__init__.py").touch()
    spoken = home / "trainyard" / "datachannel"
    shutil.copytree(DATA_CHANNEL, spoken, ignore=shutil.ignore_patterns("__pycache__"))
    (spoken.parent / "__init__.py").touch()
    python = shlex.quote(spec["python"])
    for name, module in SHIMS.items():
        shim = home / "bin" / name
        write_command(shim, f"{python} -I -S -c {shlex.quote(START.format(module))} {name}")
        for folder in ("usr/bin", "usr/sbin", "bin", "sbin"):
            original = root / folder / name
            if original.is_file() and not original.is_symlink():
                bind(shim, original)
    for name in ("python3", "python"):
        write_command(home / "bin" / name, python)
    # `fault gpu` moves it to the other commands
    write_command(
        home / "nvidia-smi", f"{python} -I -S -c {shlex.quote(START.format('nvidia_smi'))} nvidia-smi"
    )
    trusted = home / "trusted.pem"
    trusted.write_bytes(Path(spec["trusted"]).read_bytes())
    spec["host"]["environment"]["SSL_CERT_FILE"] = "/run/localcloud/trusted.pem"
    (home / "host.json").touch(mode=0o600)
    (home / "host.json").write_text(json.dumps(spec["host"]))


def write_command(path: Path, command: str) -> None:
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def name_host(root: Path, hostname: str, private_ip: str, names: str) -> None:
    (root / "etc/hostname").write_text(hostname + "\n")
    own = f"127.0.0.1 localhost\n{private_ip} {hostname}.ec2.internal {hostname}\n"
    (root / "etc/hosts").write_text(own + names)


# --- boot sequence ---


def messages(control: socket.socket) -> Iterator[dict[str, Any]]:
    while data := control.recv(1 << 20):
        yield json.loads(data)


def send(control: socket.socket, **message: Any) -> None:
    control.send(json.dumps(message).encode())


def become_init(control: socket.socket, spec: Specification) -> None:
    """Become process 1 of the host. Return only on failure."""
    libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    root = mount_disk(spec)
    name_host(root, spec["hostname"], spec["private_ip"], spec["names"])
    mount_system(root, spec)
    mount_own(root, spec)
    install_init(root, spec)
    enter(root)
    drop_capabilities(KEPT_CAPABILITIES.values())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, hard), hard))
    control.set_inheritable(True)
    argv = [spec["python"], "-I", "-S", "-c", START.format("init"), str(control.fileno())]
    os.execve(argv[0], argv, spec["host"]["environment"])  # noqa: S606


def wait_for(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    control = socket.socket(fileno=int(sys.argv[1]))
    received = messages(control)
    spec = cast(Specification, next(received))
    try:
        namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC
        check_result(libc.unshare(namespaces), "make the host's namespaces")
        mount("none", Path("/"), flags=MS_REC | MS_PRIVATE)
        send(control, event="namespaces")
        if next(received, None) is None:
            return 0  # cancelled while waiting for the network card
        wire(spec["private_ip"], spec["neighbours"])
        socket.sethostname(spec["hostname"])
        pid = os.fork()
        if pid == 0:
            become_init(control, spec)
    except (KernelError, OSError) as error:
        print(f"boot: {error}", file=sys.stderr, flush=True)
        send(control, event="failed", reason=str(error))
        return 1
    control.close()
    return wait_for(pid)
