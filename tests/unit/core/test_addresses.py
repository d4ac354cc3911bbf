"""The addresses that webhooks may have."""

import pytest

from trainyard.core.model.addresses import find_refusal, networks_of, split_url


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "169.254.170.2", "100.64.0.1",
        "0.0.0.0", "224.0.0.1", "255.255.255.255", "198.18.0.1", "::1", "::", "fe80::1%eth0", "fd00:ec2::254",
        "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "ff02::1",
    ],
)  # fmt: skip
def test_an_internal_address_is_refused(address: str) -> None:
    assert "which is refused" in (find_refusal("https", [address], ()) or "")
    assert "which is refused" in (find_refusal("https", ["8.8.8.8", address], ()) or "")


def test_a_public_address_needs_tls() -> None:
    assert find_refusal("https", ["8.8.8.8", "2606:4700::1111"], ()) is None
    assert "no TLS" in (find_refusal("http", ["8.8.8.8"], ()) or "")


def test_the_setting_allows_a_network() -> None:
    networks = networks_of(["127.0.0.0/8", "fd00::/8"])
    assert find_refusal("http", ["127.0.0.1", "fd00::1"], networks) is None
    assert "10.0.0.1" in (find_refusal("https", ["127.0.0.1", "10.0.0.1"], networks) or "")
    assert "no TLS" in (find_refusal("http", ["127.0.0.1", "8.8.8.8"], networks) or "")


@pytest.mark.parametrize(
    "url",
    [
        "", "hooks.example", "//hooks.example", "ftp://hooks.example", "https://", "https://a b", "https://a\r\nb",
        "https://user:secret@hooks.example", "https://hooks.example:99999/", "https://[::1", "https://ä.example",
        "https://a.example/" + "x" * 2000,
    ],
)  # fmt: skip
def test_a_malformed_url_is_refused_without_being_shown(url: str) -> None:
    found = split_url(url)
    assert isinstance(found, str)
    assert "hooks.example" not in found
    assert "secret" not in found
