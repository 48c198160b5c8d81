"""From a set of changed files to a plan of a push: which files, in which order, checked how.

The order makes every prefix of the push a tree that imports: new modules first, then changed
ones, those that dispatch to the new code last, and a file always after what it needs of others.
That is proved for each prefix before anything is sent (`check_order`), from the same syntax-only
resolver that the target uses.
"""

from __future__ import annotations

import ast
import hashlib
import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from patcher.model import DdpatchError, ExitCode, Finding, Refusal, Site, UsageError
from patcher.push.records import FileChange, Kind
from patcher.targets.agent.files import bad_path
from patcher.targets.agent.names import Bound, Use, bound, uses
from patcher.targets.record import updated


def _sha(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _parsed(path: str, error: Exception) -> DdpatchError:
    line = getattr(error, "lineno", None) or 1
    return DdpatchError(
        f"{path}:{line} cannot be parsed: {error}",
        exit_code=ExitCode.FINDING,
        next_step="run `ddpatch verify --level parse` on the patched tree",
        findings=(
            Finding(
                "push.parse",
                str(error),
                level="parse",
                site=Site(path, line),
                next_step="fix the patch that makes this file",
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class Code:
    """What a Python file imports from the package, and binds; ``bound`` is None for no file."""

    uses: tuple[Use, ...] = ()
    bound: Bound | None = None

    @classmethod
    def read(cls, path: str, source: bytes | None) -> Code:
        """Parse a file; raises DdpatchError (exit 1) where that fails."""
        if source is None or not path.endswith(".py"):
            return cls()
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError) as error:
            raise _parsed(path, error) from error
        return cls(tuple(uses(path, tree)), bound(tree))

    @property
    def loading(self) -> Iterable[Use]:
        """The imports that run when the module loads, and must not fail then."""
        return (use for use in self.uses if not use.lazy and not use.guarded)


@dataclass(frozen=True)
class Change:
    """One file before and after, None where it is absent; ``mode`` counts for a new file only."""

    path: str
    old: bytes | None
    new: bytes | None
    mode: int = 0o644

    @property
    def kind(self) -> Kind:
        """One of ``add``, ``replace``, ``delete``."""
        if self.old is None:
            return "add"
        return "delete" if self.new is None else "replace"

    @cached_property
    def before(self) -> Code:
        """What the old file imports and binds."""
        return Code.read(self.path, self.old)

    @cached_property
    def after(self) -> Code:
        """What the new file imports and binds."""
        return Code.read(self.path, self.new)


@dataclass(frozen=True, slots=True)
class PushPlan:
    """A push: ``changes`` in the order of the commit, RECORD (if any) at its end.

    ``imports`` are the (path, line, module, name) that the target must be able to resolve.
    """

    set_name: str
    set_version: str
    changes: tuple[Change, ...]
    imports: tuple[tuple[str, int, str, str], ...] = field(repr=False)

    @property
    def files(self) -> tuple[FileChange, ...]:
        """The files in the order of the commit."""
        return tuple(FileChange(c.path, c.kind, _sha(c.old), _sha(c.new)) for c in self.changes)

    @property
    def contents(self) -> tuple[tuple[str, bytes], ...]:
        """Each new content once, with its sha256 in hex."""
        return tuple({_sha(c.new): c.new for c in self.changes if c.new is not None}.items())


def _module_file(module: str, changed: Mapping[str, Change]) -> Change | None:
    base = module.replace(".", "/")
    return changed.get(f"{base}.py") or changed.get(f"{base}/__init__.py")


def _needs(use: Use, changed: Mapping[str, Change]) -> Iterable[tuple[Change, str]]:
    """Give the changed files that an import looks at, with the name it wants of each."""
    parts = use.module.split(".")
    for end in range(1, len(parts)):
        package = _module_file(".".join(parts[:end]), changed)
        if package is not None:
            yield package, ""
    module = _module_file(use.module, changed)
    inner = _module_file(f"{use.module}.{use.name}", changed) if use.name else None
    if inner is not None:
        yield inner, ""
        if module is not None:
            yield module, ""
    elif module is not None:
        yield module, use.name


def _offers(found: Bound | None, name: str) -> bool:
    return found is not None and (not name or found.is_open or name in found.names)


def order(changes: Sequence[Change], dispatch: Collection[str]) -> list[Change]:
    """Sort changes for the commit.

    A file comes after those whose new names it needs, and after those that still need the names
    it drops; then by group (new, changed, dispatching, deleted), then by path.
    """
    changed = {change.path: change for change in changes}
    rank = {"add": 0, "replace": 1, "delete": 3}

    def key(path: str) -> tuple[int, str]:
        change = changed[path]
        last = path in dispatch and change.kind != "delete"
        return (2 if last else rank[change.kind], path)

    waits: dict[str, set[str]] = {path: set() for path in changed}
    for change in changes:
        for use in change.after.loading:
            for other, name in _needs(use, changed):
                fresh = not _offers(other.before.bound, name) and _offers(other.after.bound, name)
                if fresh and other.path != change.path:
                    waits[change.path].add(other.path)
        for use in change.before.loading:
            for other, name in _needs(use, changed):
                gone = _offers(other.before.bound, name) and not _offers(other.after.bound, name)
                if gone and other.path != change.path:
                    waits[other.path].add(change.path)
    ready = [key(path) for path in changed if not waits[path]]
    heapq.heapify(ready)
    done: list[Change] = []
    left = set(changed)
    while left:
        # Nothing is ready in a cycle: take the first, and let check_order judge it.
        path = heapq.heappop(ready)[1] if ready else min(left, key=key)
        if path not in left:
            continue
        left.remove(path)
        done.append(changed[path])
        for name in left:
            if path in waits[name]:
                waits[name].remove(path)
                if not waits[name]:
                    heapq.heappush(ready, key(name))
    return done


def check_order(changes: Sequence[Change]) -> tuple[Finding, ...]:
    """Prove that every prefix of the order imports; return what does not.

    Only imports among the changed files can be broken by an order; they are looked up for each
    prefix, in the file as it is then.
    """
    changed = {change.path: change for change in changes}
    findings: dict[tuple[str, str, str], Finding] = {}
    for done in range(1, len(changes)):
        fresh = {change.path for change in changes[:done]}

        def state(change: Change, now: Collection[str] = fresh) -> Bound | None:
            return change.after.bound if change.path in now else change.before.bound

        for change in changes:
            new = change.path in fresh
            for use in (change.after if new else change.before).loading:
                for other, name in _needs(use, changed):
                    works = _offers(other.after.bound if new else other.before.bound, name)
                    if works and not _offers(state(other), name):
                        findings.setdefault(
                            (change.path, use.module, use.name),
                            Finding(
                                "push.order",
                                f"after {done} of {len(changes)} files, {change.path} imports "
                                f"{name or use.module} from {other.path}, which is not there",
                                site=Site(change.path, use.line),
                                next_step="import it inside the function that uses it, or make it "
                                "part of a module that is new",
                            ),
                        )
    return tuple(findings.values())


def _to_check(change: Change, changed: Mapping[str, Change]) -> Iterable[Use]:
    """Give the imports of a new file that the change could break: new ones, and among us."""
    had = {(use.module, use.name) for use in change.before.uses}
    for use in change.after.uses:
        ours = any(True for _ in _needs(use, changed))
        if not use.guarded and (ours or (use.module, use.name) not in had):
            yield use


def build_plan(
    changes: Iterable[Change],
    *,
    set_name: str,
    set_version: str,
    distinfo: str = "",
    record: bytes | None = None,
    dispatch: Collection[str] = (),
) -> PushPlan:
    """Make the plan of a push.

    ``changes`` are the files as the target has them and as it shall have them (those without a
    difference are left out), ``dispatch`` the paths that lead into the new code and so come last.
    With ``record``, the bytes of ``<distinfo>/RECORD``, the rows of the files are brought up to
    date as part of the same push. Raises UsageError for a path that is no part of an install, and
    Refusal when no order lets every prefix import.
    """
    real = [change for change in changes if change.old != change.new]
    seen: set[str] = set()
    for change in real:
        why = "comes twice" if change.path in seen else bad_path(change.path, distinfo)
        if why:
            raise UsageError(
                f"{change.path!r} {why}", next_step="push only files below sglang/, each once"
            )
        seen.add(change.path)
    ordered = order(real, dispatch)
    problems = check_order(ordered)
    if problems:
        raise Refusal(
            f"no order of these files lets every step import: {problems[0].message}",
            next_step=problems[0].next_step,
            findings=problems,
        )
    imports = tuple(
        (change.path, use.line, use.module, use.name)
        for change in ordered
        for use in _to_check(change, {c.path: c for c in ordered})
    )
    if record is not None and ordered:
        rows = updated(record, {change.path: change.new for change in ordered})
        ordered.append(Change(f"{distinfo}/RECORD", record, rows))
    return PushPlan(set_name, set_version, tuple(ordered), imports)
