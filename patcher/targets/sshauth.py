"""Signing in with keys: the agent's and those in files, in the order of ssh(1)."""

from __future__ import annotations

import base64
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH
from paramiko.pkey import UnknownKeyType

from patcher.model import TargetError
from patcher.targets.sshconfig import Resolved


class _AgentAt(AgentSSH):
    """The ssh-agent behind a socket that the configuration names (``IdentityAgent``)."""

    def __init__(self, path: str) -> None:
        super().__init__()
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        try:
            connection.connect(path)
            self._connect(connection)  # type: ignore[attr-defined]
        except (OSError, paramiko.SSHException):
            connection.close()
            raise

    def close(self) -> None:
        """Close the connection to the agent."""
        self._close()  # type: ignore[attr-defined]


@contextmanager
def _agent_keys(path: str, tried: list[str]) -> Iterator[list[paramiko.PKey]]:
    """Give the agent's keys; an agent that does not answer is noted, not fatal."""
    if path == "none":
        yield []
        return
    try:
        agent = _AgentAt(path) if path else paramiko.Agent()
    except (OSError, paramiko.SSHException) as error:
        tried.append(f"ssh-agent {path or '(SSH_AUTH_SOCK)'}: {error}")
        yield []
        return
    try:
        yield list(agent.get_keys())
    finally:
        agent.close()


@dataclass(frozen=True, slots=True)
class _Candidate:
    what: str
    key: paramiko.PKey


_DEFAULT = re.compile(r"id_(rsa|dsa|(ecdsa|ed25519)(_sk)?|xmss)")


def _are_defaults(files: Sequence[str]) -> bool:
    """Tell whether these are the files that ssh(1) tries by itself: all of them, or none is."""
    own = Path("~/.ssh").expanduser()
    paths = [Path(file).expanduser() for file in files]
    return len(paths) != 1 and all(p.parent == own and _DEFAULT.fullmatch(p.name) for p in paths)


def _file_key(path: str, tried: list[str], missing: str) -> paramiko.PKey | None:
    """Load a key; where it is not there, ``missing`` goes into ``tried`` (if it says anything)."""
    try:
        return paramiko.PKey.from_path(path)
    except FileNotFoundError:
        if missing:
            tried.append(f"{path}: {missing}")
    except (TypeError, paramiko.PasswordRequiredException):
        tried.append(f"{path}: has a passphrase (use `ssh-add {path}`)")
    except (OSError, ValueError, paramiko.SSHException, UnknownKeyType) as error:
        tried.append(f"{path}: cannot be used ({type(error).__name__})")
    return None


def _public_blob(path: str) -> bytes:
    try:
        words = Path(path + ".pub").read_text("utf-8", errors="replace").split()
        return paramiko.PKey.from_type_string(words[0], base64.b64decode(words[1])).asbytes()
    except (OSError, IndexError, ValueError, paramiko.SSHException, UnknownKeyType):
        return b""  # no public half beside it: the agent's keys are matched without it


def _candidates(
    resolved: Resolved, identity: str, agent: list[paramiko.PKey], tried: list[str]
) -> Iterator[_Candidate]:
    """Give keys in the order of ssh(1): configured ones the agent holds, others of the agent."""
    files = (identity,) if identity else resolved.identity_files
    missing = "no such file"
    if not identity:
        # Nobody has all the files that ssh(1) tries by itself: those are not missed.
        own = _are_defaults(files)
        missing = "" if own else "no such file (IdentityFile of the ssh configuration)"
    paths = [str(Path(file).expanduser()) for file in files]
    public = {_public_blob(path): path for path in paths}
    held = {key.asbytes() for key in agent}
    for key in agent:
        if key.asbytes() in public:
            yield _Candidate(f"{public[key.asbytes()]} through the ssh-agent", key)
    if not (identity or resolved.identities_only):
        for key in agent:
            if key.asbytes() not in public:
                yield _Candidate(f"ssh-agent key {key.get_name()} {key.fingerprint}", key)
    for path in paths:
        if _public_blob(path) in held:
            continue
        loaded = _file_key(path, tried, missing)
        if loaded is not None:
            yield _Candidate(f"{path} {loaded.fingerprint}", loaded)


_NOTHING = (
    "\n  (no key: the ssh-agent has none, no IdentityFile is configured, and ~/.ssh has none of "
    "the files that ssh tries by itself)"
)


def sign_in(transport: paramiko.Transport, resolved: Resolved, identity: str) -> None:
    """Authenticate with a key, or raise TargetError with everything that was tried."""
    tried: list[str] = []
    methods: list[str] = []
    with _agent_keys(resolved.identity_agent, tried) as agent:
        for candidate in _candidates(resolved, identity, agent, tried):
            try:
                more = transport.auth_publickey(resolved.user, candidate.key)
            except paramiko.BadAuthenticationType as error:
                methods = list(error.allowed_types)
                tried.append(f"{candidate.what}: keys are not accepted")
                break
            except paramiko.AuthenticationException:
                tried.append(f"{candidate.what}: refused")
            except (paramiko.SSHException, EOFError, OSError) as error:
                tried.append(
                    f"{candidate.what}: {str(error) or 'the server closed the connection'}"
                )
                break
            else:
                if not more:
                    return
                tried.append(f"{candidate.what}: accepted, but the server wants {more} as well")
                break
    shown = "".join(f"\n  {line}" for line in tried) or _NOTHING
    offers = f" (the server offers {', '.join(methods)})" if methods else ""
    raise TargetError(
        f"{resolved.user}@{resolved.hostname} did not let us in{offers}; tried:{shown}",
        next_step="ddpatch signs in with keys only: add yours with `ssh-add`, name it as "
        "IdentityFile in the ssh configuration, or as `identity` in ddpatch.toml",
    )
