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
    configuration. Raises UsageError for anything else.
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
        return IndexTarget.parse(spec.removeprefix("pypi:"))
    from patcher.targets.ssh import SshTarget

    if spec in hosts:
        return SshTarget.configured(spec, hosts[spec], python or "", path or "")
    if not spec:
        raise UsageError(
            "the target has no name",
            next_step="name a host, a [hosts.NAME] of ddpatch.toml, local, local:PATH or "
            "pypi:VERSION",
        )
    return SshTarget.parse(spec, python or "", path or "")
