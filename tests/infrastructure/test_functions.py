"""Functions get exactly the settings and packages that they need."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stacks.constructs import packages
from tests.infrastructure.assembly import Assembly, text

ROOT = Path(__file__).resolve().parents[2]
ENTRY_POINTS = ROOT / "lambdas/workflows"
HANDLERS = sorted(
    ".".join(path.relative_to(ENTRY_POINTS).with_suffix("").parts).removesuffix(".__init__")
    for path in ENTRY_POINTS.rglob("*.py")
    if re.search(r"^def handler\(", path.read_text(), flags=re.MULTILINE)
)
LIGHT = [handler for handler in HANDLERS if handler != "study.turn"]
"""The handlers without a layer that is compiled for Lambda."""
BY_LAMBDA_ITSELF = {"AWS_REGION"}
OF_POWERTOOLS = "POWERTOOLS_SERVICE_NAME"
"""`service` in every line of the log, and the dimension of every metric."""


def wanted_by(handler: str) -> set[str]:
    """Return the environment variables of the settings that the handler's module reads."""
    module = importlib.import_module(f"lambdas.workflows.{handler}")
    read = re.findall(r"environment\.read\((\w+)\)", Path(str(module.__file__)).read_text())
    return {field.upper() for name in read for field in getattr(module, name).fields()} - BY_LAMBDA_ITSELF


def test_every_handler_is_deployed_and_every_function_has_a_handler(yard: Assembly) -> None:
    assert sorted({yard.module_of(function) for function in yard.functions}) == HANDLERS


def test_a_function_is_given_exactly_what_its_settings_ask_for(yard: Assembly) -> None:
    for name, function in yard.functions.items():
        given = function.properties.get("Environment", {}).get("Variables", {})
        wanted = wanted_by(yard.module_of(name))
        assert set(given) - {OF_POWERTOOLS} == wanted, name
        assert given[OF_POWERTOOLS] == "trainyard"


SENDERS = ("train_conclude", "study_conclude", "patrol", "train_launch", "bake_launch")
"""Functions with the topic in their settings. Launch of a bake has the settings of a run's, and sends nothing."""


def test_whoever_sends_notices_sends_them_to_the_yards_topic(yard: Assembly) -> None:
    (topic,) = yard.resources("AWS::SNS::Topic")
    environments = {
        name: function.properties.get("Environment", {}).get("Variables", {})
        for name, function in yard.functions.items()
    }
    told = {name: text(given["TOPIC_ARN"]) for name, given in environments.items() if "TOPIC_ARN" in given}
    assert told == dict.fromkeys(SENDERS, f"{{{topic.name}}}")


@pytest.fixture(scope="module")
def asset_and_layer(yard: Assembly) -> tuple[Path, Path]:
    """Return the uploads, found by their names in the templates."""
    (listed,) = yard.folder.glob("*Training*.assets.json")
    assets = json.loads(listed.read_text())["files"]
    folders = {
        name: yard.folder / asset["source"]["path"]
        for name, asset in assets.items()
        if asset["source"]["packaging"] == "zip"
    }
    code = yard.functions["train_admit"].properties["Code"]["S3Key"].removesuffix(".zip")
    (layer,) = [
        each.properties["Content"]["S3Key"].removesuffix(".zip")
        for each in yard.resources("AWS::Lambda::LayerVersion")
        if each.stack == "Trainyard-Training" and each.name.startswith("Dependencies")
    ]
    return folders[code], folders[layer] / "python"


def run_alone(asset_and_layer: tuple[Path, Path], program: str) -> str:
    """Return the output of a program in an interpreter without site-packages, working folder or environment, so that
    packages which asset and layer lack are missing."""
    program = f"import sys; sys.path[:0] = {list(map(str, asset_and_layer))!r}; {program}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program], env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


IMPORTED = """
import importlib, os, traceback
import boto3
print(boto3.__file__, len(sys.modules), flush=True)
for name in {handlers!r}:
    if os.fork() == 0:
        try:
            handler = importlib.import_module("lambdas.workflows." + name).handler
            print(name, len(sys.modules) if callable(handler) else "is none", flush=True)
        except BaseException as error:
            print(name, repr(error), flush=True)
        os._exit(0)
    os.wait()
"""
"""A program that imports boto3, as every handler does, then each handler in its own fork."""


@pytest.fixture(scope="module")
def imported(asset_and_layer: tuple[Path, Path]) -> dict[str, str]:
    """Return the number of modules that each handler imports, or its error. The first entry is boto3's path."""
    program = f"exec({IMPORTED.format(handlers=LIGHT)!r})"
    lines = run_alone(asset_and_layer, program).splitlines()
    return {name: said for name, _, said in (line.partition(" ") for line in lines)}


@pytest.mark.parametrize("handler", LIGHT)
def test_a_handler_imports_with_nothing_but_its_asset_and_its_layer(
    asset_and_layer: tuple[Path, Path], imported: dict[str, str], handler: str
) -> None:
    """A cold start imports at most 1.5 times the modules of boto3. `make bench` measures the seconds."""
    _, layer = asset_and_layer
    boto3, of_boto3 = next(iter(imported.items()))
    assert boto3.startswith(str(layer))
    assert imported[handler].isdigit(), imported[handler]
    assert int(imported[handler]) <= 1.5 * int(of_boto3)


def test_the_asset_holds_the_functions_and_nothing_else(asset_and_layer: tuple[Path, Path]) -> None:
    asset, _ = asset_and_layer
    """The asset also contains the code that functions share with hosts and client."""
    assert sorted(path.name for path in asset.iterdir()) == ["lambdas", "trainyard"]
    assert sorted(path.name for path in (asset / "trainyard").iterdir()) == [
        "__init__.py",
        "archives.py",
        "command_line.py",
        "core",
        "protocol",
        "values",
    ]
    assert not [path for path in asset.rglob("*") if path.name == "__pycache__"]


def test_the_layer_fits_every_interpreter_and_both_processors(asset_and_layer: tuple[Path, Path]) -> None:
    _, layer = asset_and_layer
    assert not [path for path in layer.rglob("*") if path.suffix in (".so", ".pyd", ".pyc")]


def test_the_layer_fits_into_lambdas_250_mb(asset_and_layer: tuple[Path, Path]) -> None:
    _, layer = asset_and_layer
    assert sum(path.stat().st_size for path in layer.rglob("*") if path.is_file()) < 200 * 2**20


def test_the_layer_knows_the_services_that_functions_call_and_no_other(
    asset_and_layer: tuple[Path, Path],
) -> None:
    asset, layer = asset_and_layer
    called = {
        ast.unparse(call.args[0])
        for path in asset.rglob("lambdas/**/*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("client", "list_items") and call.args
    }
    called.remove("service")  # the parameter of `list_items`
    known = {repr(path.name) for path in (layer / "botocore/data").iterdir() if path.is_dir()}
    assert known == called


def test_the_layer_has_the_pinned_versions(asset_and_layer: tuple[Path, Path]) -> None:
    _, layer = asset_and_layer
    there = {
        re.sub(
            r"[-_.]+", "-", path.name.removesuffix(".dist-info").rsplit("-", 1)[0]
        ).lower(): path.name.removesuffix(".dist-info").rsplit("-", 1)[1]
        for path in layer.glob("*.dist-info")
    }
    pinned = dict(
        line.lower().split("==")
        for line in (ROOT / "requirements/lambda.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    )
    assert there == pinned


@pytest.mark.parametrize(
    ("packages", "functions"), [("Study", {"study_turn", "signal"}), ("Predict", {"predict"})]
)
def test_only_functions_that_draw_prune_or_predict_have_a_compiled_layer(
    packages: str, functions: set[str], yard: Assembly
) -> None:
    (layer,) = [
        each
        for each in yard.resources("AWS::Lambda::LayerVersion")
        if each.name.startswith(f"CompiledDependencies{packages}")
    ]
    assert layer.properties["CompatibleArchitectures"] == ["arm64"]
    having = {
        name for name, each in yard.functions.items() if layer.name in json.dumps(each.properties["Layers"])
    }
    assert having == functions


def test_hosts_without_a_gpu_get_the_same_packages_but_for_tensorflows_build() -> None:
    def pins(name: str) -> dict[str, str]:
        lines = (ROOT / name).read_text().splitlines()
        return dict(line.split("==") for line in lines if line and not line.startswith("#"))

    gpu, local = pins("requirements/host.txt"), pins("requirements/host-local.txt")
    assert gpu.pop("tensorflow[and-cuda]") == local.pop("tensorflow-cpu")
    assert gpu == local


def test_the_softwares_hash_changes_with_it_and_only_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder in ("training", "trainyard", "requirements/locks", "lambdas"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "training/agent.py").write_text("one")
    for name in packages.SOFTWARE:
        if name.endswith(".txt"):
            (tmp_path / name).write_text("tensorflow")
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    monkeypatch.setattr(packages, "BUILD", tmp_path / "build")
    first = packages.software_hash("document")
    assert first == packages.software_hash("document")
    assert re.fullmatch(r"[0-9a-f]{16}", first)
    assert packages.software_hash("another document") != first
    (tmp_path / "lambdas/signal.py").write_text("what hosts do not have")
    assert packages.software_hash("document") == first
    (tmp_path / "trainyard/client.py").write_text("what dev hosts have")
    assert packages.software_hash("document") != first
    (tmp_path / "training/agent.py").write_text("two")
    assert packages.software_hash("document") != first


def test_the_test_of_isolated_imports_would_notice_a_missing_package() -> None:
    assert importlib.util.find_spec("aws_cdk"), "installed here"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import aws_cdk"], capture_output=True, text=True, check=False
    )
    assert "No module named 'aws_cdk'" in done.stderr
