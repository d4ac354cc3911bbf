"""The addresses that webhooks may have: public ones by TLS, and networks that a setting of the yard lists."""

import re
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
NAT64 = ip_network("64:ff9b::/96")
"""IPv6 addresses that stand for IPv4 addresses (RFC 6052)."""
MOST_CHARACTERS = 2000
CONTROL = re.compile(r"[\x00-\x20\x7f]")


def networks_of(setting: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of the setting `internal_webhooks`. Raise ValueError for a malformed one."""
    return tuple(ip_network(each) for each in setting)


def split_url(url: str) -> SplitResult | str:
    """Return the parts of a webhook's URL, or why it is none. The reason contains no part of the URL, which is a
    secret."""
    if len(url) > MOST_CHARACTERS or not url.isascii() or CONTROL.search(url):
        return (
            f"the URL contains spaces, or letters outside of ASCII, or more than {MOST_CHARACTERS} characters"
        )
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading the port checks it
    except ValueError as error:
        return f"the URL is malformed: {error}"
    if parts.scheme not in ("https", "http") or not parts.hostname:
        return "the URL does not begin with https:// and the name of a server"
    if parts.username is not None or parts.password is not None:
        return (
            "the URL contains a user name or password before its server, which no receiver of webhooks needs"
        )
    return parts


def find_refusal(scheme: str, addresses: Collection[str], allowed: Collection[Network]) -> str | None:
    """Return why a webhook whose server has these IP addresses is refused, or None."""
    found = [ip_address(each.partition("%")[0]) for each in addresses]
    internal = [each for each in found if not _is_public(each)]
    unlisted = [each for each in internal if not _is_listed(each, allowed)]
    setting = "the setting internal_webhooks of the yard lists the networks of internal servers"
    if unlisted:
        return f"its server has the internal address {unlisted[0]}, which is refused; {setting}"
    if scheme != "https" and len(internal) < len(found):
        return "it has no TLS (http://), which is allowed only for internal servers"
    return None


def _is_listed(address: Address, allowed: Collection[Network]) -> bool:
    return any(address.version == network.version and address in network for network in allowed)


def _is_public(address: Address) -> bool:
    """Return True for an address of the internet. IPv6 addresses that embed an IPv4 address are not public, except
    mapped ones, because a translator behind them could lead to an internal server."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return _is_public(address.ipv4_mapped)
        if address in NAT64 or address.sixtofour or address.teredo:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved
