"""Patch sets as data: a patch is a frozen record with its cases beside it.

A set is a package with a ``SET`` (:class:`PatchSet`) and one module per patch, each exporting a
``PATCH``. Sets below ``patches`` are found by name; any other by the path of its folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from patcher.manifest import NAME as MANIFEST_NAME
from patcher.model import UsageError
from patcher.probe import Always, Probe

if TYPE_CHECKING:
    from patcher.edits.base import Edit


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to make a patch: edits, and the probe that says where they fit.

    A strategy without edits says that the patch is not needed there; ``note`` says why.
    """

    id: str
    when: Probe = field(default_factory=Always)
    edits: tuple[Edit, ...] = ()
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class PatchCase:
    """An example of a patch at work: files before, and after; ``after`` None means no change.

    Files are named by path; those that the edits do not name may be left out. ``strategy`` says
    which strategy the example is of.
    """

    title: str
    strategy: str
    before: Mapping[str, str]
    after: Mapping[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Patch:
    """One purpose, for every release: why, how, and when it can go.

    ``retire_when`` is a probe that becomes true once upstream has what the patch brings.
    """

    id: str
    title: str
    why: str
    upstream: str = ""
    retire_when: Probe | None = None
    retire_note: str = ""
    requires: tuple[str, ...] = ()
    strategies: tuple[Strategy, ...]
    cases: tuple[PatchCase, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What a release must show before a set can go on it at all."""

    probe: Probe
    otherwise: str


@dataclass(frozen=True, kw_only=True)
class PatchSet:
    """A named, versioned collection of patches over one package.

    ``manifest`` is the path of the generated module by which a patched tree tells what is in it;
    ``launch`` the command line that uses what the set brings; ``dispatch`` says which rows of the
    ``dispatch`` query the ledger must know: those that fall under one of its rules, each of which
    gives fields (or ``path``, ``scope``) a regular expression that must match whole.
    ``shows`` are probes that the patched tree must answer with yes. ``folder`` and ``source`` are
    filled in by :func:`load_set`: where the set lies, and that again if it is not ddpatch's own.
    """

    name: str
    version: str
    title: str
    manifest: str
    requires: tuple[Requirement, ...] = ()
    dispatch: tuple[Mapping[str, str], ...] = ()
    shows: tuple[Probe, ...] = ()
    launch: str = ""
    patches: tuple[Patch, ...] = ()
    folder: Path = field(default_factory=Path)
    source: str = ""

    @property
    def label(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"

    def patch(self, patch_id: str) -> Patch:
        """A patch by its id. Raises UsageError with the ids there are."""
        for patch in self.patches:
            if patch.id == patch_id:
                return patch
        raise UsageError(
            f"set {self.name} has no patch {patch_id!r}",
            next_step=f"one of: {', '.join(p.id for p in self.patches)}",
        )


def load_set(name: str) -> PatchSet:
    """Load a set by name (``ddtree``, ``ddtree@1``) or by the path of its folder.

    Raises UsageError for a name that is not there, another version than asked for, two patches
    with one id, or requirements that go in a circle.
    """
    wanted, _, version = (name, "", "") if Path(name).is_dir() else name.partition("@")
    package = _package(wanted)
    base = getattr(package, "SET", None)
    if not isinstance(base, PatchSet):
        raise UsageError(
            f"{wanted} has no SET that is a PatchSet", next_step="see patches/ddtree/__init__.py"
        )
    if base.manifest.rpartition("/")[2] != MANIFEST_NAME:
        raise UsageError(
            f"set {base.name} would tell what is in a tree in {base.manifest}",
            next_step=f"call the file {MANIFEST_NAME}: other sets must find it",
        )
    if version and version != base.version:
        raise UsageError(
            f"set {base.name} is at version {base.version}, not {version}",
            next_step=f"ask for --set {base.label}, or install the ddpatch that has {version}",
        )
    found = [_patch_of(module) for module in _modules(package)]
    folder = Path(str(package.__file__)).parent
    values = {f: getattr(base, f) for f in base.__dataclass_fields__}
    source = "" if package.__name__.startswith("patches.") else str(folder)
    return PatchSet(**{**values, "patches": ordered(found), "folder": folder, "source": source})


def available() -> list[str]:
    """Names of the sets that come with ddpatch."""
    package = importlib.import_module("patches")
    return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.ispkg)


def _package(name: str) -> ModuleType:
    folder = Path(name)
    if (folder / "__init__.py").is_file() and ("/" in name or name not in available()):
        return _from_folder(folder.resolve())
    if name in available():
        return _imported(name, lambda: importlib.import_module(f"patches.{name}"))
    raise UsageError(
        f"there is no patch set {name!r}",
        next_step=f"one of: {', '.join(available())}; or the path of a set's folder",
    )


def _patch_of(module: ModuleType) -> Patch:
    patch = getattr(module, "PATCH", None)
    if not isinstance(patch, Patch):
        raise UsageError(
            f"{module.__file__} has no PATCH",
            next_step="export a Patch as PATCH, or begin the file's name with an underscore",
        )
    return patch


def _imported(name: str, load: Callable[[], ModuleType]) -> ModuleType:
    """A module of a set, which is somebody's code: whatever goes wrong in it is told as theirs."""
    try:
        return load()
    except UsageError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = getattr(error, "lineno", None) or where.lineno
        file = getattr(error, "filename", None) or where.filename
        raise UsageError(
            f"patch set {name} cannot be loaded: {type(error).__name__}: {error} ({file}:{line})",
            next_step="mend that line; README.md has an example of a patch",
        ) from error


def _from_folder(folder: Path) -> ModuleType:
    name = f"ddpatch_set_{folder.name}"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader

    def load() -> ModuleType:
        loader.exec_module(module)
        return module

    return _imported(folder.name, load)


def _modules(package: ModuleType) -> Iterable[ModuleType]:
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        if not info.name.startswith("_") and not info.ispkg:
            name = f"{package.__name__}.{info.name}"
            yield _imported(info.name, partial(importlib.import_module, name))


def ordered(patches: Iterable[Patch]) -> tuple[Patch, ...]:
    """Patches in an order that puts what is required first, else as given.

    Raises UsageError for a doubled id, an unknown requirement, or a circle.
    """
    by_id: dict[str, Patch] = {}
    for patch in patches:
        if patch.id in by_id:
            raise UsageError(f"two patches are called {patch.id}", next_step="rename one of them")
        by_id[patch.id] = patch
    for patch in by_id.values():
        for needed in patch.requires:
            if needed not in by_id:
                raise UsageError(
                    f"patch {patch.id} requires {needed!r}, which is not in the set",
                    next_step="name a patch of the same set",
                )
    try:
        sorter = TopologicalSorter({p.id: p.requires for p in by_id.values()})
        order = tuple(sorter.static_order())
    except CycleError as error:
        raise UsageError(
            f"patches require each other in a circle: {' -> '.join(error.args[1])}",
            next_step="drop one of the requirements",
        ) from error
    return tuple(by_id[patch_id] for patch_id in order)
