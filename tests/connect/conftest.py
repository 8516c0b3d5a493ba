"""Certificates, keys and JWTs created for the run, and a record of callbacks and their errors."""

from __future__ import annotations

import asyncio
import base64
import binascii
import datetime
import ipaddress
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from jetarrow.server import NatsServer

DAY = datetime.timedelta(days=1)


class Record:
    """The called callbacks in order, and the errors."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.errors: list[Exception] = []
        self._changed = asyncio.Event()

    def __getitem__(self, name: str) -> Callable[..., Awaitable[None]]:
        async def callback(*args: Exception) -> None:
            self.seen.append(name)
            self.errors.extend(args)
            self._changed.set()

        return callback

    def options(self) -> dict[str, Any]:
        names = ("error", "disconnected", "reconnected", "closed", "discovered_server", "lame_duck_mode")
        return {f"{name}_cb": self[name] for name in names}

    @property
    def turns(self) -> list[str]:
        """The called callbacks without the error callback."""
        return [name for name in self.seen if name != "error"]

    async def until(self, condition: Callable[[], object], timeout: float = 10.0) -> None:
        async with asyncio.timeout(timeout):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def wait_for(self, name: str, count: int = 1, timeout: float = 10.0) -> None:
        await self.until(lambda: self.seen.count(name) >= count, timeout)


@pytest.fixture
def record() -> Record:
    return Record()


@dataclass
class Files:
    cert: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.cert))


def _names(names: tuple[str, ...]) -> x509.SubjectAlternativeName:
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(found)


class Authority:
    """A test CA and its certificates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._key = ec.generate_private_key(ec.SECP256R1())
        unused = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        usage = x509.KeyUsage(
            **dict.fromkeys((*unused, "encipher_only", "decipher_only"), False), key_cert_sign=True, crl_sign=True
        )
        self.ca = self._make("test CA", self._key, None, [x509.BasicConstraints(ca=True, path_length=None), usage])

    def issue(self, *names: str, until: datetime.timedelta = DAY) -> Files:
        """A certificate for these host names and addresses, for servers and clients."""
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._make(names[0], ec.generate_private_key(ec.SECP256R1()), "test CA", [_names(names), usage], until)

    def self_signed(self, *names: str) -> Files:
        """A self-signed certificate, as `openssl req -x509` creates it."""
        extensions = [_names(names), x509.BasicConstraints(ca=True, path_length=None)]
        return self._make(names[0], ec.generate_private_key(ec.SECP256R1()), None, extensions)

    def _make(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        issuer: str | None,
        extensions: list[Any],
        until: datetime.timedelta = DAY,
    ) -> Files:
        def common_name(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(common_name(name))
            .issuer_name(common_name(issuer or name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(now + until)
        )
        critical = x509.BasicConstraints | x509.KeyUsage
        # Python 3.13 rejects certificates without them.
        identifiers = [
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
            x509.AuthorityKeyIdentifier.from_issuer_public_key((self._key if issuer else key).public_key()),
        ]
        for extension in [*extensions, *identifiers]:
            builder = builder.add_extension(extension, critical=isinstance(extension, critical))
        cert = builder.sign(self._key if issuer else key, hashes.SHA256())
        self._number += 1
        files = Files(self._folder / f"{self._number}.pem", self._folder / f"{self._number}.key")
        files.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
        return files


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


class NKey:
    """An ed25519 key in the format of NATS: base32 with a prefix and a CRC-16."""

    PREFIX: ClassVar[dict[str, int]] = {"O": 14 << 3, "A": 0, "U": 20 << 3}

    def __init__(self, kind: str) -> None:
        self._key = ed25519.Ed25519PrivateKey.generate()
        raw = serialization.Encoding.Raw
        secret = self._key.private_bytes(raw, serialization.PrivateFormat.Raw, serialization.NoEncryption())
        prefix = self.PREFIX[kind]
        self.public = self._encode(
            bytes([prefix]) + self._key.public_key().public_bytes(raw, serialization.PublicFormat.Raw)
        )
        self.seed = self._encode(bytes([18 << 3 | prefix >> 5, (prefix & 31) << 3]) + secret)

    @staticmethod
    def _encode(data: bytes) -> str:
        crc = binascii.crc_hqx(data, 0)
        return base64.b32encode(data + crc.to_bytes(2, "little")).decode().rstrip("=")

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)

    def jwt(self, subject: NKey, kind: str, claims: dict[str, Any], **more: Any) -> str:
        """Claims about `subject`, signed by this key."""

        def part(value: dict[str, Any]) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

        body = {
            "jti": "x",
            "iat": int(time.time()),
            "iss": self.public,
            "name": kind,
            "sub": subject.public,
            "nats": {**claims, "type": kind, "version": 2},
            **more,
        }
        text = f"{part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{part(body)}"
        return f"{text}.{base64.urlsafe_b64encode(self.sign(text.encode())).decode().rstrip('=')}"


class Operator:
    """An operator with one account: users with JWTs, and the server's configuration."""

    def __init__(self) -> None:
        operator, self._account = NKey("O"), NKey("A")
        limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
        account = operator.jwt(self._account, "account", {"limits": {**limits, "wildcards": True}})
        self.config = (
            f"operator: {operator.jwt(operator, 'operator', {})}\n"
            f"resolver: MEMORY\nresolver_preload: {{ {self._account.public}: {account} }}\n"
        )

    def user(self, key: NKey, **more: Any) -> str:
        return self._account.jwt(key, "user", {"subs": -1, "data": -1, "payload": -1}, **more)

    def creds(self, key: NKey, **more: Any) -> str:
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.user(key, **more)}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{key.seed}\n------END USER NKEY SEED------\n"
        )


@pytest.fixture(scope="session")
def operator() -> Operator:
    return Operator()


@pytest.fixture
def new_key() -> Callable[[], NKey]:
    return lambda: NKey("U")


@pytest.fixture
def two() -> Iterator[tuple[NatsServer, NatsServer]]:
    with NatsServer(jetstream=False) as first, NatsServer(jetstream=False) as second:
        yield first, second
