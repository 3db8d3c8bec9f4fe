"""HTTPS with a certificate authority of one's own: made once, trusted once, and good for nothing else.

The authority may only certify the names that the daemon listens at (name constraints, in the certificate that clients
trust), so that a stolen key does not let anybody pose as another site. The daemon's own certificate is made anew at
each start and renewed while it runs; its key is on disk for no longer than it takes to load it.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..errors import InvalidArgument, StoreUnwritable
from ..private import create, make_folder, replace

CERTIFICATE: Final = "ca-cert.pem"  # what clients are told to trust
KEY: Final = "ca-key.pem"  # the authority: its key, and its certificate again, so that the two cannot part
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
AUTHORITY_LIFETIME: Final = timedelta(days=3_650)
LEAF_LIFETIME: Final = timedelta(days=30)
BACKDATED: Final = timedelta(hours=1)  # for clients whose clock is behind

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Authority:
    """The certificate authority in one directory."""

    def __init__(self, folder: Path, bundle: bytes) -> None:
        try:
            key = load_pem_private_key(bundle, None)
            self._certificate = x509.load_pem_x509_certificate(bundle)
        except ValueError as error:
            raise StoreUnwritable(f"{folder / KEY} is damaged: {ANEW.format(folder=folder)}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise StoreUnwritable(f"{folder / KEY} is not ours: {ANEW.format(folder=folder)}")
        self._key = key
        self.certificate_path = folder / CERTIFICATE

    @property
    def expires(self) -> datetime:
        return self._certificate.not_valid_after_utc

    @property
    def certificate_pem(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def covers(self, name: str) -> bool:
        """Whether clients that trust this authority accept its certificates for ``name``."""
        constraints = self._certificate.extensions.get_extension_for_class(x509.NameConstraints).value
        address = _address(name)
        for allowed in constraints.permitted_subtrees or ():
            if isinstance(allowed, x509.IPAddress):
                if address is not None and address in ipaddress.ip_network(str(allowed.value)):
                    return True
            elif isinstance(allowed, x509.DNSName) and address is None and _is_under(name, allowed.value):
                return True
        return False

    def issue(self, names: Iterable[str], now: datetime, lifetime: timedelta = LEAF_LIFETIME) -> tuple[bytes, datetime]:
        """A key with a certificate for ``names``, as PEM, and when it ends: not after the authority itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        ends = min(now + lifetime, self.expires)
        names = list(dict.fromkeys(names))
        leaf = (
            _builder("velesdb-memory", self._certificate.subject, key.public_key(), now, ends)
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, SHA256())
        )
        return _pem(key) + leaf.public_bytes(Encoding.PEM), ends


ANEW: Final = (
    "remove ca-key.pem and ca-cert.pem from {folder} and start again to have a new authority made, which every client "
    "must then be told to trust instead of the old one"
)


def authority(folder: Path, names: Sequence[str], now: datetime | None = None) -> Authority:
    """The authority in ``folder``; made, for ``names`` and this machine's own, if there is none.

    Safe when several processes do it at once. Raises StoreUnwritable if the directory or what is in it cannot be used.
    """
    now = now or datetime.now(UTC)
    make_folder(folder)
    found = _load(folder)
    if found is None:
        create(folder / KEY, _new_authority([*LOCAL_NAMES, *names], now))
        found = _load(folder)  # ours, or that of somebody who was quicker
    if found is None:
        raise StoreUnwritable(f"{folder / KEY} was removed while it was being read")
    if found.expires <= now:
        raise StoreUnwritable(f"the certificate authority in {folder} has expired: {ANEW.format(folder=folder)}")
    _publish(found)
    return found


def _load(folder: Path) -> Authority | None:
    try:
        return Authority(folder, (folder / KEY).read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnwritable(f"{folder / KEY} cannot be read: {error.strerror}") from error


def _publish(found: Authority) -> None:
    with suppress(OSError):
        if found.certificate_path.read_bytes() == found.certificate_pem:
            return
    replace(found.certificate_path, found.certificate_pem, 0o644)


def _new_authority(names: Iterable[str], now: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "velesdb-memory local CA")])
    permitted = list(dict.fromkeys(_constraint(name) for name in names))
    certificate = (
        _builder("velesdb-memory local CA", subject, key.public_key(), now, now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.NameConstraints(permitted, None), critical=True)
        .sign(key, SHA256())
    )
    return _pem(key) + certificate.public_bytes(Encoding.PEM)


def _builder(
    name: str, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature, key_cert_sign=key_cert_sign, crl_sign=crl_sign,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _address(name: str) -> Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _general_name(name: str) -> x509.GeneralName:
    address = _address(name)
    try:
        return x509.DNSName(name.lower()) if address is None else x509.IPAddress(address)
    except ValueError:
        raise InvalidArgument(f"{name!r} is no host name in ASCII (punycode for others)", field="host") from None


def _constraint(name: str) -> x509.GeneralName:
    address = _address(name)
    if address is None:
        return _general_name(name)
    # all of 127/8 is this machine
    network = "127.0.0.0/8" if address.version == 4 and address.is_loopback else str(address)
    return x509.IPAddress(ipaddress.ip_network(network))


def _is_under(name: str, domain: str) -> bool:
    name = name.lower()
    return name == domain or name.endswith("." + domain)


class ServerCertificate:
    """What the daemon shows to clients: a context for their connections, whose certificate is renewed in time."""

    def __init__(
        self,
        authority: Authority,
        names: Iterable[str],
        lifetime: timedelta = LEAF_LIFETIME,
        now: datetime | None = None,
    ) -> None:
        self._authority = authority
        self._names = [name for name in names if authority.covers(name)]
        self._lifetime = lifetime
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._renew(now or datetime.now(UTC))

    def renew_if_due(self, now: datetime | None = None) -> bool:
        """Show a new certificate from now on when less than a third of the old one's time is left; whether it was so.

        Connections that are open keep what they have.
        """
        now = now or datetime.now(UTC)
        if self.expires - now > self._lifetime / 3 or self.expires >= self._authority.expires:
            return False
        self._renew(now)
        return True

    def _renew(self, now: datetime) -> None:
        pem, self.expires = self._authority.issue(self._names, now, self._lifetime)
        # the library reads files only
        handle, name = tempfile.mkstemp(prefix="velesdb-memory-", suffix=".pem")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(pem)
            self.context.load_cert_chain(name)
        finally:
            Path(name).unlink()
