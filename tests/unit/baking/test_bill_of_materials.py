"""The SBOM of an image is complete and valid CycloneDX."""

import json
from importlib.metadata import distributions, version

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from tests.unit.baking.builder import Host, host
from training.baking.bill_of_materials import bill_of_materials

__all__ = ["host"]
INSTALLED = (
    "ii \tlibssl3\t3.0.2-0ubuntu1.20\tamd64\nrc \tgone\t1.0\tamd64\nii \tg++\t4:11.2.0-1ubuntu1\tamd64"
)


def test_it_is_cyclonedx_with_every_package_of_python_and_of_the_system(host: Host) -> None:
    host.says("dpkg-query", INSTALLED)
    (host.paths.root / "etc").mkdir(exist_ok=True)
    (host.paths.root / "etc/os-release").write_text('ID=ubuntu\nVERSION_ID="22.04"\n')
    document = bill_of_materials(host.bench().builder)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None
    urls = {component["purl"] for component in document["components"]}
    assert f"pkg:pypi/boto3@{version('boto3')}" in urls
    assert {url for url in urls if url.startswith("pkg:deb")} == {
        "pkg:deb/ubuntu/libssl3@3.0.2-0ubuntu1.20?arch=amd64",
        "pkg:deb/ubuntu/g%2B%2B@4%3A11.2.0-1ubuntu1?arch=amd64",
    }
    names = {each.name.lower().replace("_", "-").replace(".", "-") for each in distributions()}
    assert {PackageURL.from_string(url).name for url in urls if "pypi" in url} == names


def test_a_system_that_has_no_dpkg_has_pythons_packages_alone(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(host.paths.root / "bin"))
    document = bill_of_materials(host.bench().builder)
    assert document["components"]
    assert not [each for each in document["components"] if each["purl"].startswith("pkg:deb")]
