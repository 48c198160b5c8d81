"""Targets over ssh: paramiko carries, OpenSSH says what names and keys mean."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import select
import shlex
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import paramiko

from patcher.model import TargetError, UsageError
from patcher.targets.base import HostConfig, Kind, Progress, printable, quiet, slug
from patcher.targets.program import command
from patcher.targets.session import AgentSession
from patcher.targets.sshauth import sign_in
from patcher.targets.sshconfig import (
    Address,
    Resolved,
    check_host_key,
    known_keys,
    parse_address,
    resolve,
)

# What goes wrong is raised and told once; without a handler paramiko's threads would also write
# their tracebacks to standard error. Whoever sets up logging still gets them.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

CONNECT_S = 15.0
"""Seconds for each of: TCP, banner, key exchange, authentication, opening a channel."""

IDLE_S = 90.0
"""Seconds without a byte after which the link counts as dead (the agent gives up after 60)."""

SESSION_S = 3600.0
"""Seconds that a whole session may take, so that a trickle of bytes cannot hold us for ever."""

SLOW_RTT_S = 0.005
"""From this round-trip time on, contents are worth compressing."""

MAX_HOPS = 8

# First the ones that the processor does in hardware; then what every OpenSSH since 6.2 has.
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")
_MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256")


class _Proxy(paramiko.ProxyCommand):
    """A ProxyCommand that ends when its command does, and leaves no process behind."""

    def recv(self, size: int) -> bytes:
        """Read what is there; no bytes at the end."""
        if self.process.stdout is None:
            return b""
        descriptor = self.process.stdout.fileno()
        ready, _, _ = select.select([descriptor], [], [], self.timeout)
        if not ready:
            raise TimeoutError
        return os.read(descriptor, size)

    def close(self) -> None:
        """End the command and take its status."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(timeout=10)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _tcp(resolved: Resolved) -> tuple[socket.socket, float]:
    """Connect, and return the socket with the time that took: one round trip."""
    started = time.monotonic()
    try:
        connection = socket.create_connection((resolved.hostname, resolved.port), CONNECT_S)
    except OSError as error:
        raise TargetError(
            f"{resolved.hostname} port {resolved.port} cannot be reached: {error}",
            next_step="check the name, the port and the network",
        ) from error
    took = time.monotonic() - started
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: unanswered data ends the connection, tcp(7)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
    return connection, took


def _start(transport: paramiko.Transport, resolved: Resolved, identity: str) -> None:
    """Exchange keys, check the host's, and sign in."""
    transport.banner_timeout = transport.handshake_timeout = CONNECT_S
    transport.auth_timeout = transport.channel_timeout = CONNECT_S
    options = transport.get_security_options()
    options.ciphers = _CIPHERS
    options.digests = _MACS
    options.key_types = _key_types(resolved, tuple(options.key_types))
    try:
        transport.start_client(timeout=2 * CONNECT_S)
        key = transport.get_remote_server_key()
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise TargetError(
            f"{resolved.hostname} port {resolved.port} does not speak ssh with us: "
            f"{printable(str(error)) or type(error).__name__}",
            next_step="check that an SSH server listens there: "
            f"ssh-keyscan -p {resolved.port} {resolved.hostname}",
        ) from error
    check_host_key(resolved, key.get_name(), key.asbytes())
    sign_in(transport, resolved, identity)
    transport.set_keepalive(15)


def _key_types(resolved: Resolved, offered: tuple[str, ...]) -> tuple[str, ...]:
    """Put the kinds of key that known_hosts has first, as ssh(1) does."""
    known = {
        key.algorithm
        for name in resolved.known_as
        for key in known_keys(name, resolved.known_hosts)
        if not key.marker
    }
    if "ssh-rsa" in known:
        known |= {"rsa-sha2-512", "rsa-sha2-256"}
    return tuple(sorted(offered, key=lambda kind: (kind not in known, offered.index(kind))))


@dataclass
class _Route:
    """The connections to a host, hop by hop; closed from the far end."""

    transports: list[paramiko.Transport] = field(default_factory=list)
    sockets: list[object] = field(default_factory=list)
    rtt: float = 0.0

    def close(self) -> None:
        for transport in reversed(self.transports):
            transport.close()
            transport.join(5)
        for connection in reversed(self.sockets):
            with contextlib.suppress(OSError):  # dead already is as good as closed
                connection.close()  # type: ignore[attr-defined]

    def open(self, resolved: Resolved, identity: str, depth: int = 0) -> None:
        """Connect to a host, through its jump hosts or its proxy command if it has any."""
        if depth > MAX_HOPS:
            raise UsageError(
                f"more than {MAX_HOPS} jump hosts lead to {resolved.alias}",
                next_step="look for a loop of ProxyJump in the ssh configuration",
            )
        link: object
        if resolved.proxy_jump:
            first, *others = [resolve(hop) for hop in resolved.proxy_jump]
            self.open(first, "", depth + 1)
            for hop in others:
                self._start(self._through(hop), hop, "")
            link = self._through(resolved)
        elif resolved.proxy_command:
            shell = os.environ.get("SHELL", "/bin/sh")
            link = self._proxy(shlex.join([shell, "-c", f"exec {resolved.proxy_command}"]))
        else:
            link, self.rtt = _tcp(resolved)
            self.sockets.append(link)
        self._start(link, resolved, identity)

    def _proxy(self, text: str) -> _Proxy:
        try:
            proxy = _Proxy(text)
        except OSError as error:
            raise TargetError(
                f"the ProxyCommand cannot be started: {error}",
                next_step="correct it in the ssh configuration",
            ) from error
        self.sockets.append(proxy)
        return proxy

    def _through(self, resolved: Resolved) -> paramiko.Channel:
        """Open a tunnel from the last hop to the next one."""
        last = self.transports[-1]
        try:
            return last.open_channel(
                "direct-tcpip",
                (resolved.hostname, resolved.port),
                ("127.0.0.1", 0),
                timeout=CONNECT_S,
            )
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise TargetError(
                f"the jump host does not lead to {resolved.hostname} port {resolved.port}: "
                f"{printable(str(error))}",
                next_step="check that the jump host allows TCP forwarding and reaches that address",
            ) from error

    def _start(self, link: object, resolved: Resolved, identity: str) -> None:
        transport = paramiko.Transport(link)  # type: ignore[arg-type]
        transport.daemon = True
        self.transports.append(transport)
        _start(transport, resolved, identity)


class SshLink:
    """The agent's process at the far end of an ssh channel."""

    def __init__(self, route: _Route, text: str) -> None:
        self._route = route
        self._deadline = time.monotonic() + SESSION_S
        self._said = b""
        started = time.monotonic()
        self._channel = route.transports[-1].open_session(timeout=CONNECT_S)
        took = time.monotonic() - started
        self.rtt = min(took, route.rtt) if route.rtt else took
        self._channel.settimeout(IDLE_S)
        self._channel.exec_command(text)

    def send(self, data: bytes) -> None:
        """Write all of ``data``."""
        self._channel.sendall(data)

    def recv(self, size: int) -> bytes:
        """Return between 1 and ``size`` bytes, or none at the end."""
        if time.monotonic() > self._deadline:
            raise TimeoutError(f"the session has lasted {SESSION_S:.0f} s")
        self._drain()
        try:
            return self._channel.recv(size)
        except TimeoutError as error:
            raise TimeoutError(f"no byte for {IDLE_S:.0f} s") from error

    def _drain(self) -> None:
        """Keep standard error flowing: a full window would stop the agent."""
        while self._channel.recv_stderr_ready():
            piece = self._channel.recv_stderr(65536)
            self._said = (self._said + piece)[:65536]
            if not piece:
                return

    def finish(self) -> int:
        """Wait for the process to end and return its status, -1 when nobody knows it."""
        if not self._channel.status_event.wait(10):
            return -1
        return self._channel.recv_exit_status()

    def errors(self) -> str:
        """Return the first 64 KiB of standard error."""
        self._channel.status_event.wait(1)
        self._drain()
        return self._said.decode("utf-8", "replace")

    def close(self) -> None:
        """Close the channel and every connection that leads to it."""
        self._channel.close()
        self._route.close()


@dataclass(frozen=True)
class SshTarget:
    """A host reached over ssh; ``address`` as the user or ``ddpatch.toml`` gave it."""

    name: str
    address: Address
    python: str = ""
    path: str = ""
    sudo: bool = False
    identity: str = ""
    kind: Kind = "ssh"
    writable: bool = True

    @classmethod
    def parse(cls, spec: str, python: str, path: str) -> SshTarget:
        """Read ``[user@]host[:port]``, where host may be an alias of the ssh configuration."""
        return cls(spec, parse_address(spec), python, path)

    @classmethod
    def configured(cls, name: str, host: HostConfig, python: str, path: str) -> SshTarget:
        """Make the target of a ``[hosts.NAME]`` table; the command line's options win."""
        address = Address(host.host or name, host.user, host.port)
        return cls(
            name, address, python or host.python, path or host.path, host.sudo, host.identity
        )

    @property
    def slug(self) -> str:
        """The name as a component of a git ref."""
        return slug(self.name)

    @functools.cached_property
    def resolved(self) -> Resolved:
        """What OpenSSH makes of the address."""
        return resolve(self.address)

    def connect(self, progress: Progress = quiet) -> AgentSession:
        """Connect and start the agent; raises TargetError for everything that ssh can refuse."""
        python = self.python or "python3"
        text = command(python, self.sudo)
        with _given_back(_Route()) as route:
            route.open(self.resolved, self.identity)
            try:
                link = SshLink(route, text)
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise TargetError(
                    f"{self.name} lets us in but runs no command: {printable(str(error))}",
                    next_step="check that this account may run commands (no forced command)",
                ) from error
        return AgentSession(
            link,
            self.name,
            path=self.path,
            python=python,
            progress=progress,
            squeeze=link.rtt > SLOW_RTT_S,
        )


@contextlib.contextmanager
def _given_back(route: _Route) -> Iterator[_Route]:
    """Close a route when connecting fails half-way."""
    try:
        yield route
    except BaseException:
        route.close()
        raise
