"""The installation of JupyterLab in a bake."""

import json
from pathlib import Path

import pytest

from training.baking.jupyter import add_ours, setting
from training.host.paths import Paths

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("settings", "text"),
    [("", ""), ("ACCELERATOR=none\n", ""), ("JUPYTER=none\n", "none"), ("JUPYTER=optional\n", "optional")],
)
def test_an_image_must_have_it_unless_its_base_says_otherwise(
    tmp_path: Path, settings: str, text: str
) -> None:
    paths = Paths(tmp_path)
    assert setting(paths) == ""
    paths.image_settings.parent.mkdir(parents=True)
    paths.image_settings.write_text(settings)
    assert setting(paths) == text


def test_ours_takes_the_place_of_what_a_package_brought(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    kernel = paths.jupyter / "share/jupyter/kernels/python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text("ipykernel's")
    (kernel / "logo.png").write_text("a picture")
    (paths.jupyter / "lib/python3.11/site-packages").mkdir(parents=True)
    paths.agent.mkdir(parents=True)
    (paths.agent / "training").symlink_to(ROOT / "training")
    add_ours(paths)
    text = json.loads((kernel / "kernel.json").read_text())
    assert text["argv"][:3] == ["/usr/bin/env", "python", "{resource_dir}/launch.py"]
    assert (kernel / "launch.py").is_file()
    assert (kernel / "logo.png").read_text() == "a picture"
