"""Files outside the working folder. The warning names files that a user would miss, and no caches."""

import os
import time
from pathlib import Path

import pytest

from training.host import account
from training.host.outputs import outside
from training.host.outputs.outside import Outside
from training.host.paths import Paths

MIB = 1 << 20


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def found(root: Path, since: float | None = None) -> dict[str, int]:
    look = Outside(Paths(root), account.own(), time.time() - 60 if since is None else since)
    look.look()
    return dict(look.sizes)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("tmp", "var/tmp", "var/lib/trainyard/home", "usr/lib", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


HOME = "var/lib/trainyard/home"


@pytest.mark.parametrize(
    ("path", "size", "shown"),
    [
        (f"{HOME}/model.pt", 10, "~/model.pt"),
        (f"{HOME}/runs/exp1/weights.safetensors", 10, "~/runs/exp1/weights.safetensors"),
        ("tmp/model.keras", 10, "/tmp/model.keras"),
        ("tmp/export/1/saved_model.pb", 10, "/tmp/export/1/saved_model.pb"),
        ("tmp/out/model.ckpt.data-00000-of-00001", 10, "/tmp/out/model.ckpt.data-00000-of-00001"),
        ("tmp/results.bin", MIB + 1, "/tmp/results.bin"),
        ("var/tmp/table.csv", MIB + 1, "/var/tmp/table.csv"),
        ("data/out/predictions.csv", MIB + 1, "/data/out/predictions.csv"),
        ("mnt/model.h5", 10, "/mnt/model.h5"),
        ("workspace/best.onnx", 10, "/workspace/best.onnx"),
    ],
)
def test_models_and_large_files_are_named(root: Path, path: str, size: int, shown: str) -> None:
    write(root / path, size)
    assert found(root) == {shown: size}


@pytest.mark.parametrize(
    "path",
    [
        f"{HOME}/.cache/huggingface/hub/model.safetensors",
        f"{HOME}/.keras/datasets/mnist.npz",
        f"{HOME}/.torch/model.pt",
        f"{HOME}/nltk_data/corpora/words.pickle",
        f"{HOME}/program/outputs/model.pt",
        f"{HOME}/checkpoints/model.pt",
        f"{HOME}/results/model/model.keras",
        f"{HOME}/venv/lib/weights.pkl",
        f"{HOME}/spare/weights.pkl",
        "tmp/torchinductor_root/ab/cd.pkl",
        "tmp/tmp1a2b_3cd/weights.h5",
        "tmp/tmpabcdefgh",
        "tmp/pymp-xyz/weights.npy",
        "tmp/tfhub_modules/9f/saved_model.pb",
        "tmp/huggingface_cache/x.safetensors",
        "usr/lib/model.pt",
        "etc/model.pt",
    ],
)
def test_caches_and_temporary_files_are_not(root: Path, path: str) -> None:
    write(root / path, 2 * MIB)
    assert found(root) == {}


def test_small_files_and_downloaded_data_sets_are_not(root: Path) -> None:
    write(root / "tmp/notes.txt", 1000)
    write(root / "tmp/lock", 0)
    write(root / "tmp/empty.pt", 0)
    write(root / "tmp/mnist/raw/train-images-idx3-ubyte", 2 * MIB)
    write(root / "tmp/mnist/raw/train-images-idx3-ubyte.gz", 2 * MIB)
    write(root / "tmp/cifar.tar.gz", 2 * MIB)
    write(root / f"{HOME}/env/pyvenv.cfg", 10)
    write(root / f"{HOME}/env/lib/weights.pt", 2 * MIB)
    assert found(root) == {}


def test_what_was_there_before_the_program_is_not(root: Path) -> None:
    write(root / "tmp/model.pt", 10)
    assert found(root, since=time.time() + 1) == {}


@pytest.mark.parametrize(
    ("folder", "kind", "stays"),
    [
        ("mnt/efs", "nfs4", True),
        ("mnt/fsx", "lustre", True),
        ("fsx", "lustre", True),
        ("mnt/my share", "cifs", True),
        ("data/bucket", "fuse", True),
        ("data/bucket", "fuse.s3fs", True),
        (f"{HOME}/shared", "nfs", True),
        ("mnt/disk", "ext4", False),
        ("mnt/disk", "xfs", False),
        ("mnt/ram", "tmpfs", False),
        ("mnt/layers", "fuse.fuse-overlayfs", False),
    ],
)
def test_files_on_a_network_file_system_are_not_lost(
    root: Path, tmp_path: Path, folder: str, kind: str, stays: bool
) -> None:
    write(root / folder / "runs/model.pt", 10)
    point = str(root / folder).replace(" ", "\\040")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw\n36 35 98:0 / {point} rw shared:1 master:2 - {kind} fs-1:/ rw\n"
    )
    look = Outside(Paths(root), account.own(), time.time() - 60, mounts)
    look.look()
    assert (not look.sizes) is stays


def test_links_circles_pipes_and_files_that_vanish_end_no_look(root: Path) -> None:
    write(root / "tmp/model.pt", 10)
    (root / "tmp/around").symlink_to(".")
    (root / "tmp/away.pt").symlink_to("/nowhere")
    os.mkfifo(root / "tmp/pipe.pt")
    (root / "tmp/closed").mkdir(mode=0)
    assert found(root) == {"/tmp/model.pt": 10}


def test_the_warning_names_the_largest_and_counts_the_others(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Outside(Paths(root), account.own(), time.time() - 60)
    look.look()
    assert look.warning() is None
    write(root / "tmp/one.pt", 10)
    look.look()
    assert look.warning() == (
        "1 file outside the working folder will be lost with the host: /tmp/one.pt (10 B); to keep such files, "
        "write them below the working folder, by a relative path"
    )
    for number in range(7):
        write(root / f"tmp/{number}.pt", 100 + number)
    look.look()
    said = look.warning() or ""
    assert said.startswith(
        "8 files outside the working folder will be lost with the host: /tmp/6.pt (106 B), "
    )
    assert " and 3 more; " in said


def test_a_look_at_very_many_files_is_short(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "MOST_LOOKED_AT", 20)
    for number in range(50):
        write(root / f"data/{number}.pt", 10)
        write(root / f"scratch/{number}.pt", 10)
    assert 20 <= len(found(root)) <= 22
