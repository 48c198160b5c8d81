"""Where an SGLang install is: a host over ssh, this machine, or a release of the package index.

::

    target = parse_target("gpu1", hosts)
    with target.connect(progress) as session:
        facts = session.facts()
        snapshot = session.snapshot(known=store_has)
        for sha256, content in snapshot.contents:
            ...
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping

from patcher.model import UsageError
from patcher.targets.base import HostConfig, Progress, Session, Snapshot, Target, quiet, slug

__all__ = [
    "HostConfig",
    "Progress",
    "Session",
    "Snapshot",
    "Target",
    "parse_target",
    "quiet",
    "slug",
]


_NUMBERS = re.compile(r"v?\d+(\.\d+)+")


def _refuse_snapshot(spec: str) -> None:
    name, _, number = spec.rpartition("@")
    if name and number.isdecimal():
        raise UsageError(
            f"{spec} is a snapshot, not a target", next_step=f"name the target alone: {name}"
        )


def _refuse_number(spec: str) -> None:
    """Raise UsageError for what ``connect(2)`` would take, but nobody means as a host.

    ``0.5.11`` is 0.5.0.11 for inet_aton(3), and ``2`` is 0.0.0.2.
    """
    host = spec.rpartition("@")[2].partition(":")[0]
    if host.isdecimal():
        raise UsageError(
            f"{host!r} is a number, not a host",
            next_step="a snapshot is NAME@2, a release pypi:0.5.11, a host a name or an address",
        )
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        pass
    else:
        return
    if _NUMBERS.match(host):
        from packaging.version import InvalidVersion, Version

        try:
            version = Version(host)
        except InvalidVersion:
            pass
        else:
            raise UsageError(
                f"{host!r} is a version, not a host", next_step=f"did you mean pypi:{version}?"
            )
    try:
        socket.inet_aton(host)
    except (OSError, ValueError):
        numeric = bool(host) and not host.strip("0123456789.")
    else:
        numeric = True
    if numeric:
        raise UsageError(
            f"{host!r} is no host name", next_step="write user@host, host or host:port"
        )


def parse_target(
    spec: str,
    hosts: Mapping[str, HostConfig],
    *,
    python: str | None = None,
    path: str | None = None,
) -> Target:
    """Return the target that ``spec`` names; nothing is connected or looked up yet.

    ``spec`` is ``local``, ``local:PATH``, ``pypi:VERSION``, a key of ``hosts``, or
    ``[user@]host[:port]`` where host may be an alias of the ssh configuration. ``python`` (the
    target's interpreter) and ``path`` (the folder that holds ``sglang/``) win over the
    configuration. Raises UsageError for anything else; among that are a version, a number and a
    snapshot (``NAME@N``), which ssh would take as hosts.
    """
    # The kinds are imported when they are needed: paramiko alone takes a fifth of a second.
    if spec == "local" or spec.startswith("local:"):
        from patcher.targets.local import LocalTarget

        folder = spec.removeprefix("local").removeprefix(":")
        if spec == "local:":
            raise UsageError("local: names no folder", next_step="write local:PATH, or just local")
        return LocalTarget.parse(folder, python or "", path or "")
    if spec.startswith("pypi:"):
        from patcher.targets.index import IndexTarget

        if python or path:
            raise UsageError(
                f"{spec} has no interpreter and no folder",
                next_step="leave --python and --path out",
            )
        _refuse_snapshot(spec)
        return IndexTarget.parse(spec.removeprefix("pypi:"))
    if spec in hosts:
        from patcher.targets.ssh import SshTarget

        return SshTarget.configured(spec, hosts[spec], python or "", path or "")
    if not spec:
        raise UsageError(
            "the target has no name",
            next_step="name a host, a [hosts.NAME] of ddpatch.toml, local, local:PATH or "
            "pypi:VERSION",
        )
    _refuse_snapshot(spec)
    _refuse_number(spec)
    from patcher.targets.ssh import SshTarget

    return SshTarget.parse(spec, python or "", path or "")
