"""A small web server on loopback that sends raw responses by path, valid or not."""

import datetime
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Script = Callable[[ByteStream], Awaitable[None]]
"""Answers on the open connection for as long as it likes."""


def answer(
    body: bytes | str = b"", content_type: str = "text/html", status: str = "200 OK", **fields: str
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}"]
    lines += [f"Content-Type: {content_type}"] if content_type else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    return answer(status=status, content_type="", Location=location)


@dataclass
class Server:
    port: int
    pages: dict[str, bytes | Script]
    requests: list[str] = field(default_factory=list[str])
    """The head of each request, as it came."""

    scheme: str = "http"

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def serve(self, stream: ByteStream) -> None:
        async with stream:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += await stream.receive()
                self.requests.append(head.decode())
                page = self.pages.get(head.split()[1].decode(), answer(status="404 Not Found"))
                await (stream.send(page) if isinstance(page, bytes) else page(stream))
            except (anyio.BrokenResourceError, anyio.EndOfStream, ssl.SSLError):
                return


@asynccontextmanager
async def serving(
    pages: dict[str, bytes | Script], tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Server]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    server = Server(port, pages, scheme="http" if tls is None else "https")
    secured = listener if tls is None else TLSListener(listener, tls, standard_compatible=False)
    async with secured, anyio.create_task_group() as tasks:
        tasks.start_soon(secured.serve, server.serve)
        yield server
        tasks.cancel_scope.cancel()


@dataclass(frozen=True)
class Authority:
    """`serving` is for a server with the names asked for, `trusting` for whoever believes it."""

    serving: ssl.SSLContext
    trusting: ssl.SSLContext


def authority(folder: Path, *names: str) -> Authority:
    """A certificate made for one test."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName(list(map(_general, names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain = folder / "server.pem"
    chain.write_bytes(pem + private)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(chain)
    client = ssl.create_default_context(cadata=pem.decode("ascii"))
    return Authority(server, client)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
