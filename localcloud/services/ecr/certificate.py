"""The certificate of the registries' names, and the authority that hosts and functions trust besides the machine's."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from localcloud.base.registries import all_names, trusted_in

DAYS = 3650
AUTHORITY = "The local cloud's registries"


@dataclass(frozen=True)
class Certificate:
    """Files of the state folder."""

    certificate: Path
    key: Path
    trusted: Path
    """The machine's authorities and the local cloud's own."""


def prepare(state: Path) -> Certificate:
    """Write a new authority, which exists only in memory, and a certificate that it has signed."""
    trusted = trusted_in(state)
    folder = trusted.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    files = Certificate(folder / "certificate.pem", folder / "key.pem", trusted)
    authority_key, own_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY)])
    authority = (
        _builder(issuer, issuer, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registries")])
    names = x509.SubjectAlternativeName([x509.DNSName(name) for name in all_names()])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _builder(subject, issuer, own_key.public_key())
        .add_extension(names, critical=False)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = own_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files.key.touch(mode=0o600)
    files.key.write_bytes(key)
    files.certificate.write_bytes(certificate.public_bytes(pem))
    files.trusted.write_bytes(_of_the_machine() + authority.public_bytes(pem))
    files.trusted.chmod(0o644)
    return files


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=DAYS))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _of_the_machine() -> bytes:
    """Return the authorities that this machine trusts, if it has a file of them."""
    file = ssl.get_default_verify_paths().cafile
    return Path(file).read_bytes() + b"\n" if file and Path(file).exists() else b""
