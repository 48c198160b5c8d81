"""What OpenSSH means by a host, asked of OpenSSH: ``ssh -G`` and ``ssh-keygen -F``.

Nothing is guessed: Include, Match, aliases, tokens and hashed or wildcarded known_hosts lines have
exactly the meaning that ssh(1) gives them. ``DDPATCH_SSH_CONFIG`` names another configuration
file, as ``ssh -F`` does.
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import ipaddress
import os
import re
import shlex
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from patcher.model import TargetError, UsageError

CONFIG_VARIABLE = "DDPATCH_SSH_CONFIG"

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Address:
    """A destination as somebody wrote it; empty user and port 0 mean: as configured."""

    host: str
    user: str = ""
    port: int = 0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{self.user}@" if self.user else ""
        return f"{user}{host}" + (f":{self.port}" if self.port else "")


def parse_address(text: str) -> Address:
    """Read ``[user@]host[:port]``; anything that could be an option or a shell word is refused."""
    user, _, rest = text.rpartition("@")
    if rest.startswith("["):
        host, closed, port = rest[1:].partition("]")
        ok = bool(closed) and (not port or port.startswith(":"))
        port = port[1:]
    else:
        host, _, port = rest.partition(":")
        ok = True
    if not ok or (port and not (port.isdecimal() and 0 < int(port) < 65536)):
        raise UsageError(f"{text!r} has no valid port", next_step="write user@host:port")
    return checked(Address(host, user, int(port or 0)))


def checked(address: Address) -> Address:
    """Return the address if its user and host are plain words, or raise UsageError."""
    try:
        ipaddress.ip_address(address.host.partition("%")[0])
        plain = re.fullmatch(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?", address.host) is not None
    except ValueError:
        plain = _WORD.fullmatch(address.host) is not None
    if not plain:
        raise UsageError(
            f"{address.host!r} is no host name", next_step="write user@host, host or host:port"
        )
    if address.user and not _WORD.fullmatch(address.user):
        raise UsageError(f"{address.user!r} is no user name", next_step="write user@host")
    return address


@dataclass(frozen=True, slots=True)
class Resolved:
    """A destination as ssh(1) would connect to it."""

    alias: str
    hostname: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    identity_agent: str = ""
    known_hosts: tuple[str, ...] = ()
    host_key_alias: str = ""
    proxy_jump: tuple[Address, ...] = ()
    proxy_command: str = ""
    key_algorithms: tuple[str, ...] = ()

    @property
    def known_as(self) -> tuple[str, ...]:
        """The names under which known_hosts may have it, the exact one first."""
        if self.host_key_alias:
            return (self.host_key_alias,)
        if self.port == 22:
            return (self.hostname,)
        return (f"[{self.hostname}]:{self.port}", self.hostname)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"{command[0]} is not installed here; ddpatch asks it what a host name means",
            next_step="install the OpenSSH client",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(
            f"`{shlex.join(command)}` did not answer within {_TIMEOUT_S} s",
            next_step="look for a `Match exec` in the ssh configuration that hangs",
        ) from error


def _jumps(text: str) -> tuple[Address, ...]:
    if text.lower() == "none":
        return ()
    return tuple(parse_address(hop.removeprefix("ssh://")) for hop in text.split(",") if hop)


def _expand(value: str, tokens: dict[str, str], what: str) -> str:
    """Expand ``%`` tokens (``ssh_config(5)``, TOKENS), ``~`` and ``${VARIABLE}``."""

    def token(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise UsageError(
                f"the ssh configuration uses {match[0]} in {what}, which ddpatch does not know",
                next_step=f"write {what} without it, or give `identity` in ddpatch.toml",
            )
        return tokens[match[1]]

    expanded = re.sub(r"%(.)", token, value)
    expanded = re.sub(r"\$\{(\w+)\}", lambda m: os.environ.get(m[1], ""), expanded)
    return str(Path(expanded).expanduser()) if what != "ProxyCommand" else expanded


def resolve(address: Address) -> Resolved:
    """Ask ``ssh -G`` what the address means; raises UsageError where we cannot do the same."""
    checked(address)
    command = ["ssh", "-G"]
    if os.environ.get(CONFIG_VARIABLE):
        command += ["-F", os.environ[CONFIG_VARIABLE]]
    if address.user:
        command += ["-l", address.user]
    if address.port:
        command += ["-p", str(address.port)]
    done = _run([*command, "--", address.host])
    if done.returncode != 0:
        raise UsageError(
            f"ssh cannot read its configuration for {address}: {done.stderr.strip()}",
            next_step="correct the ssh configuration",
        )
    told: dict[str, list[str]] = defaultdict(list)
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        told[key.lower()].append(value)

    def one(key: str, default: str = "") -> str:
        return told[key][0] if told.get(key) else default

    if told.get("certificatefile"):
        raise UsageError(
            f"the ssh configuration of {address} has a CertificateFile, which ddpatch cannot use",
            next_step="put the certificate beside the key as KEY-cert.pub",
        )
    host = checked(Address(one("hostname", address.host), one("user")))
    tokens = {
        "%": "%",
        "d": str(Path.home()),
        "h": host.host,
        "n": address.host,
        "p": one("port", "22"),
        "r": host.user,
        "u": getpass.getuser(),
    }
    jump = _jumps(one("proxyjump", "none"))
    proxy = one("proxycommand", "none")
    known = " ".join(told["userknownhostsfile"] + told["globalknownhostsfile"])
    agent = one("identityagent")
    return Resolved(
        alias=address.host,
        hostname=host.host,
        port=int(one("port", "22")),
        user=host.user,
        identity_files=tuple(
            _expand(f, tokens, "IdentityFile") for f in told["identityfile"] if f != "none"
        ),
        identities_only=one("identitiesonly") == "yes",
        identity_agent=_agent_path(agent, tokens),
        known_hosts=tuple(
            _expand(f, tokens, "UserKnownHostsFile") for f in shlex.split(known) if f != "none"
        ),
        host_key_alias=one("hostkeyalias"),
        proxy_jump=jump,
        proxy_command="" if jump or proxy == "none" else _expand(proxy, tokens, "ProxyCommand"),
        key_algorithms=tuple(one("hostkeyalgorithms").split(",")),
    )


def _agent_path(value: str, tokens: dict[str, str]) -> str:
    """Return the socket of the agent, ``none``, or nothing for the environment's."""
    if value in ("", "SSH_AUTH_SOCK"):
        return ""
    if value == "none":
        return "none"
    if value.startswith("$") and not value.startswith("${"):
        return os.environ.get(value[1:], "none")
    return _expand(value, tokens, "IdentityAgent")


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One known_hosts line that speaks about a host; ``blob`` is the key in the wire format."""

    file: str
    line: int
    marker: str
    algorithm: str
    blob: bytes = field(repr=False)

    @property
    def place(self) -> str:
        """Where the line is."""
        return f"{self.file}:{self.line}"


def known_keys(name: str, files: tuple[str, ...]) -> list[KnownKey]:
    """Return what known_hosts files say about a name, wildcards, hashes and markers included."""
    found = []
    for file in files:
        if not Path(file).exists():
            continue
        done = _run(["ssh-keygen", "-F", name, "-f", file])
        if done.returncode != 0 and done.stderr.strip():
            raise UsageError(
                f"{file} cannot be read: {done.stderr.strip()}",
                next_step="correct that file, or its permissions",
            )
        line = 0
        for text in done.stdout.splitlines():
            at = re.fullmatch(r"# Host .* found: line ([0-9]+) ?.*", text)
            if at:
                line = int(at[1])
                continue
            words = text.split()
            marker = words.pop(0) if words and words[0].startswith("@") else ""
            if len(words) >= 3:
                found.append(KnownKey(file, line, marker, words[1], base64.b64decode(words[2])))
    return found


def fingerprint(blob: bytes) -> str:
    """Return a key's fingerprint as ssh(1) shows it."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii")
    return "SHA256:" + digest.rstrip("=")


def check_host_key(resolved: Resolved, algorithm: str, blob: bytes) -> None:
    """Accept the key that a server has shown, or raise TargetError saying what to do.

    There is no way to switch this off: a key is known, or the connection ends.
    """
    shown = f"{algorithm} key {fingerprint(blob)}"
    name = resolved.known_as[0]
    where = resolved.known_hosts[0] if resolved.known_hosts else "~/.ssh/known_hosts"
    keys: list[KnownKey] = []
    for at, candidate in enumerate(resolved.known_as):
        found = known_keys(candidate, resolved.known_hosts)
        for key in found:
            if key.marker == "@revoked" and key.blob == blob:
                raise TargetError(
                    f"{name} shows the {shown}, which {key.place} has revoked",
                    next_step="do not connect; ask whoever runs that host",
                )
        plain = [key for key in found if not key.marker]
        if any(key.blob == blob for key in plain):
            return
        # Under its bare name a host is another port of itself: a match counts, a clash does not.
        keys += found if at == 0 else []
    clash = [key for key in keys if not key.marker and key.algorithm == algorithm]
    if clash:
        raise TargetError(
            f"the host key of {name} has CHANGED: expected "
            f"{fingerprint(clash[0].blob)} ({clash[0].place}), found the {shown}",
            next_step="somebody may be in between: compare the fingerprint with whoever runs that "
            f"host, and only then forget the old one: ssh-keygen -R {shlex.quote(name)} -f "
            f"{shlex.quote(clash[0].file)}",
        )
    others = [key for key in keys if not key.marker]
    if any(key.marker == "@cert-authority" for key in keys) and not others:
        raise TargetError(
            f"{name} is known by a certificate authority only, which ddpatch cannot check; it "
            f"shows the {shown}",
            next_step=f"compare the fingerprint, then add the key itself to {where}",
        )
    port = f"-p {resolved.port} " if resolved.port != 22 else ""
    known = f" (known are other kinds of key: {others[0].place})" if others else ""
    raise TargetError(
        f"the host key of {name} is unknown{known}: it shows the {shown}",
        next_step="compare that fingerprint with whoever runs the host (there: ssh-keygen -lf "
        "/etc/ssh/ssh_host_*_key.pub), then add the key: "
        f"ssh-keyscan {port}{resolved.hostname} >> {where}"
        + (f" (under the name {name})" if resolved.host_key_alias else ""),
    )
