"""From an origin to an open connection: name, address, proxy, TLS."""

import asyncio
import errno
import os
import re
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

from antiphon.providers.http.failures import BadProxy, Unreachable
from antiphon.providers.http.resolving import ResolvedAddress, Resolver, demand_public
from antiphon.providers.http.target import Origin, Proxy

STAGGER = 0.25
"""How long an address has for itself before the next one is tried beside it."""

_TUNNEL_LIMIT = 64 * 1024
_SUCCESS = re.compile(rb"HTTP/1\.[01] 2\d\d[ \r]")
_END = b"\r\n\r\n"


class Dialer:
    """Knows names and certificates; without a context of its own it makes the default one, once."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._resolver = Resolver()
        self._tls = tls

    async def tls(self) -> ssl.SSLContext:
        """Reading the system's certificates takes a while, so it is done beside the event loop."""
        if self._tls is None:
            self._tls = await asyncio.to_thread(_default_context)
        return self._tls

    async def open(self, origin: Origin, protocol: asyncio.Protocol) -> None:
        """Connect the protocol to the origin, through its proxy if it has one."""
        if origin.scheme == "https" or (origin.proxy is not None and origin.proxy.scheme == "https"):
            await self.tls()
        if origin.public_only or origin.proxy is None:
            addresses = await self._resolver.resolve(origin.host, origin.port, is_foreign=origin.public_only)
        if origin.public_only:
            demand_public(origin.host, addresses)
        try:
            if origin.proxy is None:
                await self._attach(await _reach(addresses), origin, protocol)
            elif origin.public_only:
                # The proxy may know the name otherwise than we do, so it gets what was looked at.
                await self._open_one_of([one.place[0] for one in addresses], origin.proxy, origin, protocol)
            else:
                await self._open_through(origin.proxy, origin, origin.host, protocol)
        except ssl.CertificateError:
            raise Unreachable("its TLS certificate was not accepted") from None
        except ssl.SSLError:
            raise Unreachable("no TLS connection could be made; is its base_url right?") from None
        except OSError as error:
            self._resolver.forget(origin.host, origin.port)
            refused = isinstance(error, ConnectionRefusedError)
            why = "the connection was refused" if refused else "no connection could be made"
            raise Unreachable(f"{why}; is it running, and is its base_url right?") from None

    async def _open_one_of(
        self, hosts: list[str], proxy: Proxy, origin: Origin, protocol: asyncio.Protocol
    ) -> None:
        """Through the proxy to the first address that it reaches."""
        for left, host in zip(reversed(range(len(hosts))), hosts, strict=True):
            try:
                await self._open_through(proxy, origin, host, protocol)
                return
            except BadProxy:
                if not left:
                    raise

    async def _open_through(
        self, proxy: Proxy, origin: Origin, host: str, protocol: asyncio.Protocol
    ) -> None:
        """Connect through the proxy, which gets `host`: the origin's name, or one of its addresses."""
        place = f"[{host}]:{origin.port}" if ":" in host else f"{host}:{origin.port}"
        try:
            sock = await _reach(await self._resolver.resolve(proxy.host, proxy.port))
            if not origin.has_tunnel:
                await self._attach(sock, proxy, protocol)
                return
            if proxy.scheme == "http":
                await _ask_for_tunnel(sock, proxy, place)
            else:
                reader = asyncio.StreamReader()
                transport = await self._attach(sock, proxy, asyncio.StreamReaderProtocol(reader))
                await _ask_through_tls(transport, reader, proxy, place)
        except (OSError, EOFError, asyncio.LimitOverrunError, Unreachable):
            raise BadProxy from None
        if proxy.scheme == "http":
            await self._attach(sock, origin, protocol)
        else:
            await self._wrap(transport, origin, protocol)

    async def _attach(
        self, sock: socket.socket, server: Origin | Proxy, protocol: asyncio.Protocol
    ) -> asyncio.Transport:
        """The socket is the protocol's from now on, after a TLS handshake if the server wants one."""
        try:
            context = self._tls if server.scheme == "https" else None
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: protocol, sock=sock, ssl=context, server_hostname=server.host if context else None
            )
        except BaseException:
            # An event loop may be slow to close what has no TLS yet; the other side need not wait for that.
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            raise
        return transport

    async def _wrap(self, transport: asyncio.Transport, origin: Origin, protocol: asyncio.Protocol) -> None:
        """Within the TLS to its proxy; most origins want TLS of their own in there."""
        loop = asyncio.get_running_loop()
        try:
            inner = None
            if origin.scheme == "http":
                transport.set_protocol(protocol)
                inner = transport
            elif not transport.is_closing():
                inner = await loop.start_tls(
                    transport, protocol, await self.tls(), server_hostname=origin.host
                )
            if inner is None:
                raise ConnectionResetError
        except BaseException:
            transport.abort()
            raise
        protocol.connection_made(inner)


async def _ask_for_tunnel(sock: socket.socket, proxy: Proxy, place: str) -> None:
    """On the bare socket, because only a bare one can be given to TLS without losing anything."""
    loop = asyncio.get_running_loop()
    head = b""
    try:
        await loop.sock_sendall(sock, _connect_request(proxy, place))
        while _END not in head:
            data = await loop.sock_recv(sock, 4096)
            head += data
            if not data or len(head) > _TUNNEL_LIMIT:
                raise BadProxy
        _demand_success(head)
    except BaseException:
        sock.close()
        raise


async def _ask_through_tls(
    transport: asyncio.Transport, reader: asyncio.StreamReader, proxy: Proxy, place: str
) -> None:
    try:
        transport.write(_connect_request(proxy, place))
        _demand_success(await reader.readuntil(_END))
    except BaseException:
        transport.abort()
        raise


def _connect_request(proxy: Proxy, place: str) -> bytes:
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return "\r\n".join([*lines, "", ""]).encode()


def _demand_success(head: bytes) -> None:
    if not _SUCCESS.match(head):
        raise BadProxy


async def _reach(addresses: Sequence[ResolvedAddress]) -> socket.socket:
    """The first address that answers; each later one starts when the one before fails or is slow."""
    if len(addresses) == 1:
        return await _dial(addresses[0])
    error: BaseException | None = None
    running: set[asyncio.Task[socket.socket]] = set()
    left = list(addresses)
    try:
        while left or running:
            if left:
                running.add(asyncio.create_task(_dial(left.pop(0))))
            done, running = await asyncio.wait(
                running, timeout=STAGGER if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                if (error := task.exception()) is None:
                    # Two may have come through in the same moment.
                    running |= done - {task}
                    return task.result()
        raise error or OSError
    finally:
        for task in running:
            task.cancel()
            task.add_done_callback(_hang_up)


def _hang_up(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _dial(address: ResolvedAddress) -> socket.socket:
    """Not `sock_connect`: uvloop's asks for the name again, even of an address."""
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(address.place)
        if code == errno.EINPROGRESS:
            await _writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


async def _writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(sock)


def _default_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
