"""The authority and the certificates (D57)."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from https.conftest import Gated, Starter
from support.daemon import COMMAND, environment
from velesdb_memory.errors import InvalidArgument, StorageError
from velesdb_memory.server import tls
from velesdb_memory.server.tls import Authority, ServerCertificate, authority

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def leaf(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def trusts(made: Authority, name: str, *, issued_to: str | None = None, at: datetime = NOW) -> bool:
    """Whether a client that trusts this authority accepts what it certifies for ``issued_to`` as ``name``."""
    pem, _ = made.issue([issued_to or name], NOW)
    store = Store([leaf(made.certificate_pem)])
    try:
        subject: x509.DNSName | x509.IPAddress = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    try:
        PolicyBuilder().store(store).time(at).build_server_verifier(subject).verify(leaf(pem), [])
    except VerificationError:
        return False
    return True


def test_the_files_are_their_owner_s_and_the_key_is_nobody_else_s(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "tls"
    made = authority(folder, [])
    assert sorted(path.name for path in folder.iterdir()) == ["ca-cert.pem", "ca-key.pem"]
    assert b"PRIVATE" not in made.certificate_path.read_bytes()
    if os.name != "nt":
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
        assert modes == {"tls": 0o700, "ca-key.pem": 0o600, "ca-cert.pem": 0o644}


def test_the_key_is_never_readable_by_others_not_even_while_it_is_made(tmp_path: Path) -> None:
    """Whatever the mask says, and with no moment between making and closing."""
    script = (
        "import os, sys; os.umask(0)\n"
        "hook = lambda event, arguments: event == 'os.chmod' and 'ca-key' in str(arguments[0]) and os._exit(3)\n"
        "sys.addaudithook(hook)\n"
        "from pathlib import Path; from velesdb_memory.server.tls import authority; authority(Path(sys.argv[1]), [])"
    )
    made = subprocess.run([sys.executable, "-c", script, str(tmp_path / "tls")], timeout=60)
    assert made.returncode == 0
    if os.name != "nt":
        assert stat.S_IMODE((tmp_path / "tls" / "ca-key.pem").stat().st_mode) == 0o600


def test_the_authority_is_made_once(tmp_path: Path) -> None:
    first, again = authority(tmp_path, []), authority(tmp_path, ["later.example"])
    assert first.certificate_pem == again.certificate_pem == again.certificate_path.read_bytes()
    again.certificate_path.unlink()
    authority(tmp_path, [])
    assert again.certificate_path.read_bytes() == first.certificate_pem


def test_D57_the_authority_is_good_for_the_bound_names_and_nothing_else(tmp_path: Path) -> None:
    made = authority(tmp_path, ["memory.example", "192.0.2.7", "2001:db8::1"], NOW)
    for name in ("localhost", "127.0.0.1", "127.1.2.3", "::1", "memory.example", "192.0.2.7", "2001:db8::1"):
        assert made.covers(name) and trusts(made, name), name
    for name in ("bank.example", "example", "notmemory.example", "192.0.2.8", "2001:db8::2", "10.0.0.1", "::2"):
        assert not made.covers(name) and not trusts(made, name), name
    assert not trusts(made, "memory.example", issued_to="localhost")
    assert not trusts(made, "localhost", at=NOW + timedelta(days=31))


def test_the_authority_can_certify_servers_only_and_no_other_authority(tmp_path: Path) -> None:
    certificate = leaf(authority(tmp_path, []).certificate_pem)
    basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert basic.critical and basic.value.ca and basic.value.path_length == 0
    assert certificate.extensions.get_extension_for_class(x509.NameConstraints).critical
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    [name] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert "velesdb-memory" in str(name.value)


def test_a_certificate_lasts_a_month_and_not_longer_than_its_authority(tmp_path: Path) -> None:
    made = authority(tmp_path, [], NOW)
    pem, ends = made.issue(["localhost"], NOW)
    assert ends == leaf(pem).not_valid_after_utc == NOW + timedelta(days=30)
    assert leaf(pem).not_valid_before_utc == NOW - timedelta(hours=1)
    _, ends = made.issue(["localhost"], made.expires - timedelta(days=1))
    assert ends == made.expires


def test_an_authority_that_has_expired_or_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    made = authority(tmp_path / "old", [], NOW)
    with pytest.raises(StorageError, match=r"expired.*remove ca-key\.pem"):
        authority(tmp_path / "old", [], made.expires)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "ca-key.pem").write_text("-----BEGIN NONSENSE-----", encoding="utf-8")
    with pytest.raises(StorageError, match=r"damaged.*remove ca-key\.pem"):
        authority(tmp_path / "bad", [])
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StorageError, match="cannot be"):
        authority(tmp_path / "file", [])


def test_names_that_no_certificate_can_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="ASCII"):
        authority(tmp_path, ["mémoire.example"])
    assert not (tmp_path / "ca-key.pem").exists()


def test_daemons_that_start_at_once_share_one_authority(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from velesdb_memory.server.tls import authority\n"
        "print('ready', flush=True); sys.stdin.read(1)\n"
        "sys.stdout.write(authority(Path(sys.argv[1]), []).certificate_pem.decode())"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "tls")]
    racing = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for each in racing:
        assert each.stdout is not None and each.stdout.readline() == "ready\n"
    seen = {each.communicate(".", timeout=60)[0] for each in racing}
    assert len(seen) == 1
    assert (tmp_path / "tls" / "ca-cert.pem").read_text(encoding="ascii") in seen
    assert len(list((tmp_path / "tls").iterdir())) == 2


@contextmanager
def serving(certificate: ServerCertificate) -> Iterator[int]:
    """A server that greets over TLS; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listening.accept()
                except OSError:
                    return
                with suppress(OSError), certificate.context.wrap_socket(plain, server_side=True) as connection:
                    connection.sendall(b"hello")
                    connection.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def shown(port: int, ca: Path) -> x509.Certificate:
    """The certificate that a client is shown, which it has verified."""
    context = ssl.create_default_context(cafile=str(ca))
    with (
        socket.create_connection(("127.0.0.1", port), 60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        assert connection.recv(5) == b"hello"
        der = connection.getpeercert(binary_form=True)
        assert der is not None
        return x509.load_der_x509_certificate(der)


def test_D57_the_certificate_is_renewed_in_time_for_new_connections(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    begun = now - timedelta(days=20, seconds=1)
    made = authority(tmp_path, [], begun)
    certificate = ServerCertificate(made, ["localhost", "127.0.0.1", "elsewhere.example"], now=begun)
    with serving(certificate) as port:
        first = shown(port, made.certificate_path)
        names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost"]
        assert not certificate.renew_if_due(begun + timedelta(days=19))
        assert shown(port, made.certificate_path).serial_number == first.serial_number
        assert certificate.renew_if_due(now)
        second = shown(port, made.certificate_path)
        assert second.serial_number != first.serial_number
        assert second.not_valid_after_utc > first.not_valid_after_utc
        assert not certificate.renew_if_due(now + timedelta(days=19))


def test_the_key_of_the_certificate_is_not_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    ServerCertificate(authority(tmp_path / "tls", []), ["localhost"])
    assert list((tmp_path / "temporary").iterdir()) == []
    assert len(list((tmp_path / "tls").iterdir())) == 2


def test_a_running_daemon_renews_its_certificate(gated: Gated) -> None:
    options = "{'leaf_lifetime': __import__('datetime').timedelta(seconds=6), 'tidy_every': 0.05}"
    daemon = gated(options=options).daemon

    def serial() -> int:
        with daemon.connect() as connection:
            assert isinstance(connection, ssl.SSLSocket)
            der = connection.getpeercert(binary_form=True)
            assert der is not None
            return x509.load_der_x509_certificate(der).serial_number

    session = daemon.session()
    first = serial()
    while serial() == first:
        pass
    # the session and its connection go on
    assert session.tools()


def test_D57_a_bind_that_the_authority_may_not_certify_is_refused_with_what_to_do(tmp_path: Path) -> None:
    authority(tmp_path / "tls", [])
    settings = {"HTTP_BIND": "0.0.0.0:0", "HTTP_ALLOW_REMOTE": "1", "HTTP_ALLOWED_HOSTS": "memory.example"}
    bound = {**settings, "HTTP_BIND": "192.0.2.7:0"}
    ended = subprocess.run(
        COMMAND[:4], env=environment(tmp_path, **bound), capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert "may not certify 192.0.2.7" in ended.stderr and "remove ca-key.pem" in ended.stderr


def test_a_proxy_s_name_that_the_authority_may_not_certify_is_only_noted(start: Starter, tmp_path: Path) -> None:
    authority(tmp_path / "tls", [])
    daemon = start(HTTP_ALLOWED_HOSTS="memory.example")
    daemon.wait_for("no certificate for memory.example")
    assert daemon.client().get("/health").status_code == 200


def test_a_new_authority_covers_the_names_that_are_served(start: Starter, tmp_path: Path) -> None:
    start(HTTP_ALLOWED_HOSTS="memory.example")
    made = authority(tmp_path / "tls", [])
    assert made.covers("memory.example") and not made.covers("bank.example")


def test_old_protocols_are_not_spoken(tmp_path: Path) -> None:
    certificate = ServerCertificate(authority(tmp_path, []), tls.LOCAL_NAMES)
    assert certificate.context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_without_encryption_the_daemon_says_so_loudly(start: Starter) -> None:
    daemon = start("--http-insecure")
    daemon.wait_for("WARNING: not encrypted")
    assert daemon.scheme == "http" and daemon.session().tools()
    assert not daemon.ca.exists()


@pytest.mark.parametrize("bind", ["localhost:0", "[::1]:0"])
def test_every_loopback_address_can_be_bound(start: Starter, bind: str) -> None:
    if not socket.has_ipv6 or not _has_loopback6():
        pytest.skip("this machine has no IPv6")
    daemon = start(command=COMMAND[:4], HTTP_BIND=bind)
    assert daemon.session().tools()


def _has_loopback6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
