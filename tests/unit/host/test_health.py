"""Faults of the hardware in the kernel's log."""

from pathlib import Path

import pytest

from training.host.health import BrokenHardware, Health, judge
from trainyard.protocol.signals import FailureKind

FELL_OFF = "NVRM: Xid (PCI:0000:00:1e): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
OF_A_PROGRAM = "NVRM: Xid (PCI:0000:00:1e): 31, pid=812, name=python, MMU Fault: ENGINE GRAPHICS"
REMAPPED = "NVRM: Xid (PCI:0000:00:1e): 63, pid=812, Row Remapper: New row marked for remapping"


def record(number: int, text: str) -> str:
    return f"3,{number},5140900,-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:1e.0\n"


@pytest.mark.parametrize("number", [46, 48, 62, 64, 74, 79, 94, 95, 119, 120, 140])
def test_an_xid_that_needs_a_reset_or_another_gpu_is_fatal(number: int) -> None:
    fault = judge(f"NVRM: Xid (PCI:0000:b3:00): {number}, pid=1")
    assert fault is not None
    assert fault.is_fatal
    assert f"(PCI:0000:b3:00) reports Xid {number}: " in fault.reason


@pytest.mark.parametrize(
    "message", [OF_A_PROGRAM, "NVRM: Xid (PCI:0000:b3:00): 790, x", "eth0: link is up", ""]
)
def test_errors_of_programs_and_other_messages_are_no_fault(message: str) -> None:
    assert judge(message) is None


@pytest.mark.parametrize(
    ("message", "is_fatal"),
    [
        (REMAPPED, False),
        ("I/O error, dev nvme1n1, sector 2048 op 0x0:(READ)", False),
        ("critical medium error, dev nvme1n1, sector 99 op 0x0:(READ) flags 0x0", False),
        ("nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10", False),
        ("nvme nvme1: Disabling device after reset failure: -19", True),
        ("nvme nvme1: Removing after probe failure status: -19", True),
        ("sd 0:0:0:0: rejecting I/O to offline device", True),
        ("EXT4-fs (nvme1n1): Remounting filesystem read-only", True),
        ("XFS (nvme1n1): log I/O error -5, Shutting down filesystem.", True),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", True),
        ("NVRM: GPU 0000:00:1e.0: GPU has fallen off the bus.", True),
    ],
)
def test_other_faults_are_noted_and_those_of_memory_are_fatal(message: str, is_fatal: bool) -> None:
    fault = judge(message)
    assert fault is not None
    assert fault.is_fatal is is_fatal


def test_each_fault_is_returned_once_and_the_first_fatal_one_stays(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(record(1, "eth0: up") + record(2, REMAPPED))
    health = Health(log)
    (noted,) = health.look()
    assert "Xid 63" in noted
    assert (health.look(), health.fatal) == ((), "")
    health.check()
    with log.open("a") as more:
        more.write(record(3, OF_A_PROGRAM) + record(4, FELL_OFF) + record(5, REMAPPED))
    assert health.look() == (
        "a GPU of this host (PCI:0000:00:1e) reports Xid 79: the GPU has fallen off the bus",
    )
    with pytest.raises(BrokenHardware, match="Xid 79") as raised:
        health.check()
    assert (raised.value.kind, raised.value.final) == (FailureKind.HARDWARE, False)


def test_a_disk_is_noted_once_and_a_file_in_a_loop_device_is_no_disk(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    sectors = (
        f"I/O error, dev {disk}, sector {sector}" for disk in ("nvme1n1", "nvme2n1") for sector in (8, 9)
    )
    log.write_text("".join(record(number, text) for number, text in enumerate(sectors)))
    assert [noted.rsplit("dev ")[1] for noted in Health(log).look()] == [
        "nvme1n1, sector 8",
        "nvme2n1, sector 8",
    ]
    assert judge("EXT4-fs (loop3): Remounting filesystem read-only") is None


def test_a_record_that_is_read_in_two_parts_is_one_message(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    half, rest = record(1, FELL_OFF)[:30], record(1, FELL_OFF)[30:]
    log.write_text(half)
    health = Health(log)
    assert health.look() == ()
    with log.open("a") as more:
        more.write(rest)
    assert len(health.look()) == 1


def test_a_host_without_the_kernels_log_is_sound(tmp_path: Path) -> None:
    health = Health(tmp_path / "none")
    health.check()
    assert health.look() == ()
