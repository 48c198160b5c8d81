"""What an agent's answer means for the person: the sentence, the exit code, the next step."""

from __future__ import annotations

from patcher.model import DdpatchError, Refusal, TargetError, UsageError
from patcher.targets.agent.frames import AgentError


def _list(value: object, limit: int = 20) -> str:
    rows = [str(row) for row in value] if isinstance(value, list) else []
    more = f", and {len(rows) - limit} more" if len(rows) > limit else ""
    return ", ".join(rows[:limit]) + more


def explain(error: AgentError, name: str) -> DdpatchError:
    """Return the exception for an error that any request can meet; ``name`` is the target's."""
    detail = error.detail
    message = f"{name}: {error.message}"
    match error.code:
        case "no-install":
            hint = _list(detail.get("running"))
            step = "name the interpreter that runs SGLang with --python, or its folder with --path"
            return UsageError(
                f"{message}; looked in {_list(detail.get('searched')) or 'nothing'}",
                next_step=f"{step} (running now: {hint})" if hint else step,
            )
        case "two-installs":
            return UsageError(
                f"{message}: {_list(detail.get('found'))}",
                next_step="name the one you mean: --path FOLDER (the one that holds sglang/), "
                "or the interpreter that has only that one: --python PYTHON",
            )
        case "bad-install":
            return UsageError(message, next_step="name the package's folder with --path")
        case "changed":
            return TargetError(
                message, next_step="somebody is writing there: run it again when they are done"
            )
        case "caps":
            return TargetError(
                message, next_step="check what is in that folder: it is not a plain SGLang install"
            )
        case "unwritable" | "state-dir":
            return TargetError(
                message,
                next_step="connect as the owner of the package, or set sudo = true for this host",
            )
        case "no-lock":
            return TargetError(message, next_step="push where flock(2) works (not on this NFS)")
        case "space":
            return Refusal(message, next_step="free that much space on the target, then run again")
        case "io":
            return TargetError(message, next_step="check the target's disk, then run again")
        case "newer":
            return UsageError(message, next_step="use that version of ddpatch, or a newer one")
        case "bug":
            return TargetError(
                f"{name}: ddpatch's agent failed; nothing is assumed about the target\n"
                f"{error.message}",
                next_step=f"run `ddpatch status {name}`, and report this text",
            )
        case _:
            return TargetError(
                f"{message} ({error.code})", next_step=f"run `ddpatch status {name}`"
            )
