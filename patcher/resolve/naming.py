"""What new code takes from the tree is there: imports, attributes, names.

Imports, attributes and plain names of new or changed code are looked up in the patched tree. What
cannot be decided from the text (dynamic attributes, values of unknown type, packages outside the
tree) counts as unknown and is never reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from patcher.collector import collector_paused
from patcher.model import Candidate, Finding, Severity, Site
from patcher.resolve import imports, members
from patcher.resolve.classes import BUILTINS
from patcher.resolve.evidence import Evidence
from patcher.resolve.infer import Inference
from patcher.resolve.known import MODULE_NAMES
from patcher.resolve.order import used_too_early
from patcher.resolve.program import Module, Program, Scope
from patcher.resolve.references import Reference, Region, references
from patcher.resolve.suggest import described, in_place, nearest, visible
from patcher.resolve.values import (
    ClassValue,
    External,
    InstanceValue,
    ModuleValue,
    SuperValue,
    Value,
    is_known,
)
from patcher.tree import Tree

LEVEL = "names"

COMPANIONS = ("sgl_kernel",)
"""Packages that ship beside the tree, unseen: a name of theirs is proved by the tree using it."""

_CLASS_NAMES = ("__class__", "__module__", "__qualname__")
"""Names that Python provides inside a class body or its methods."""

_ANYTHING = frozenset({"BaseException", "Exception"})
_GUARDS: Mapping[str, frozenset[str]] = {
    "import": _ANYTHING | {"ImportError", "ModuleNotFoundError"},
    "attribute": _ANYTHING | {"AttributeError"},
    "name": _ANYTHING | {"NameError", "UnboundLocalError"},
}


@dataclass
class NamesResult:
    """What the level found: ``checked`` things were decided, ``unknown`` ones could not be.

    ``evidence`` maps each name of a companion package to where the pristine tree takes it.
    """

    findings: list[Finding] = field(default_factory=list)
    checked: int = 0
    unknown: int = 0
    evidence: dict[str, Site] = field(default_factory=dict)


def examine_names(
    before: Tree, after: Tree, changed: Mapping[str, tuple[Region, ...]]
) -> NamesResult:
    """Look up every name of changed code; ``changed`` maps paths to regions in ``after``."""
    with collector_paused():
        checker = _Checker(before, after)
        for path in sorted(changed):
            module = checker.program.module_at(path)
            if module is not None:
                checker.module(module, changed[path])
        checker.result.findings.sort(key=in_place)
        return checker.result


class _Checker:
    def __init__(self, before: Tree, after: Tree) -> None:
        self.program = Program(after)
        self.inference = Inference(self.program)
        self.evidence = Evidence(self.inference)
        self.pristine = Program(before)
        self.result = NamesResult()

    def module(self, module: Module, regions: Sequence[Region]) -> None:
        for reference in references(module, regions):
            match reference.node:
                case ast.Import() | ast.ImportFrom():
                    self._import(reference.node, reference)
                case ast.Name(ctx=ast.Load()):
                    self._name(reference.node, reference)
                case ast.Attribute(ctx=ast.Load()) as node:
                    self._attribute(node, reference, regions)
                case ast.AugAssign(target=ast.Attribute() as node):
                    self._attribute(node, reference, regions)
                case (
                    ast.Call(
                        func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str() as name)]
                    ) as call
                ):
                    node = ast.copy_location(ast.Attribute(value, name, ast.Load()), call)
                    self._attribute(node, reference, regions)

    # ---------------------------------------------------------------- imports

    def _import(self, node: ast.Import | ast.ImportFrom, at: Reference) -> None:
        if at.caught & _GUARDS["import"]:
            self.result.unknown += len(node.names)
            return
        module = at.scope.module
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._module_exists(alias.name, node, at)
            return
        dotted = module.absolute(node)
        if not self._module_exists(dotted, node, at):
            return
        for alias in node.names:
            if alias.name != "*":
                self._imported(dotted, alias.name, alias, at)

    def _module_exists(self, dotted: str, node: ast.AST, at: Reference) -> bool:
        if not self.program.owns(dotted):
            if dotted.partition(".")[0] not in COMPANIONS:
                self.result.unknown += 1
            return True
        self.result.checked += 1
        if self.program.exists(dotted):
            return True
        parent, _, last = dotted.rpartition(".")
        while parent and not self.program.exists(parent):
            parent, _, last = parent.rpartition(".")
        self._report(
            "names.unresolved",
            f"there is no module {dotted}",
            at,
            node,
            expected=f"module {dotted}",
            found=f"{parent} has no {last}" if parent else "no such package",
            near=nearest(self.inference, last, self.program.children(parent), ModuleValue(parent)),
        )
        return False

    def _imported(self, dotted: str, name: str, alias: ast.alias, at: Reference) -> None:
        if not self.program.owns(dotted):
            self._external(f"{dotted}.{name}", alias, at)
            return
        self.result.checked += 1
        if imports.member(self.program, dotted, name) is not None:
            return
        module = self.program.module(dotted)
        moved = self.evidence.defined_elsewhere(name, module.path if module else "")
        names = imports.names_of(self.program, dotted) - {name}
        self._report(
            "names.unresolved",
            f"{dotted} has no {name}",
            at,
            alias,
            expected=f"{name} in {module.path if module else dotted}",
            found=f"{len(names)} other names there" + (", defined elsewhere" if moved else ""),
            near=[*moved, *nearest(self.inference, name, names, ModuleValue(dotted))],
        )

    def _external(self, dotted: str, node: ast.AST, at: Reference) -> None:
        package = dotted.partition(".")[0]
        if package not in COMPANIONS:
            self.result.unknown += 1
            return
        if dotted in self.result.evidence:
            self.result.checked += 1
            return
        site = _companion_use(self.pristine, dotted)
        if site is not None:
            self.result.checked += 1
            self.result.evidence[dotted] = site
            return
        self.result.unknown += 1
        if isinstance(node, ast.Attribute) and ast.unparse(node) != dotted:
            return  # an attribute of something imported: only its owner would be a module's name
        self._report(
            "names.unproved",
            f"nothing shows that {package} has {dotted}",
            at,
            node,
            severity=Severity.WARNING,
            expected=f"the pristine tree to take {dotted} somewhere",
            found="no use of it",
        )

    # ------------------------------------------------------------------ names

    def _name(self, node: ast.Name, at: Reference) -> None:
        found = at.scope.find(node.id)
        module = at.scope.module
        self.result.checked += 1
        if node.id in BUILTINS or node.id in MODULE_NAMES or at.caught & _GUARDS["name"]:
            return
        if found is not None:
            where, bindings = found
            if used_too_early(node, at, where, bindings):
                line = min(b.line for b in bindings)
                self._report(
                    "names.unbound",
                    f"{node.id} is used before it gets a value",
                    at,
                    node,
                    expected=f"a value for {node.id} before this line",
                    found=f"its first value comes on line {line}",
                )
            return
        mangled = node.id.startswith("__") and not node.id.endswith("__")
        if (mangled or node.id in _CLASS_NAMES) and self.inference.owner_of(at.scope):
            return
        stars = imports.starred(self.program, module, node.id)
        if stars or module.dynamic or node.id in module.assigned_globals:
            return
        self._report(
            "names.undefined",
            f"{node.id} is not defined here",
            at,
            node,
            expected=f"{node.id} as a local, global or builtin name",
            found="no such name in scope",
            near=nearest(self.inference, node.id, visible(at.scope), at.scope),
        )

    # ------------------------------------------------------------- attributes

    def _attribute(self, node: ast.Attribute, at: Reference, regions: Sequence[Region]) -> None:
        line = node.end_lineno or node.lineno
        if not any(first <= line <= last for first, last in regions):
            return
        values = self.inference.evaluate(node.value, at.scope)
        if len(values) == 1 and isinstance(values[0], External):
            self._external(f"{values[0].dotted}.{node.attr}", node, at)
            return
        if not is_known(values):
            self.result.unknown += 1
            return
        self.result.checked += 1
        if any(self.inference.attribute(v, node.attr) is not None for v in values):
            return
        if self._excused(node, at, values):
            self.result.checked -= 1
            self.result.unknown += 1
            return
        names = {n for v in values for n in members.names_of(self.inference, v)}
        what = " or ".join(dict.fromkeys(described(v) for v in values))
        self._report(
            "names.unresolved",
            f"{what} has no attribute {node.attr}",
            at,
            node,
            expected=f"{node.attr} on {ast.unparse(node.value)}",
            found=f"{len(names)} other attributes",
            near=nearest(self.inference, node.attr, names, values[0]),
        )

    def _excused(self, node: ast.Attribute, at: Reference, values: Iterable[Value]) -> bool:
        """Whether something outside the classes may still provide the attribute."""
        if at.caught & _GUARDS["attribute"] or self._asked_for(at.scope, node):
            return True
        return any(self._may_have(value, node.attr) for value in values)

    def _asked_for(self, scope: Scope, node: ast.Attribute) -> bool:
        """Whether the function asks for attributes of the value, or for a class that has this."""
        function = scope.function
        text = ast.unparse(node.value)
        for call in ast.walk(function.node if function else scope.module.scope.node):
            match call:
                case ast.Call(func=ast.Name(id="hasattr"), args=[asked, *_]):
                    if ast.unparse(asked) == text:
                        return True
                case ast.Call(
                    func=ast.Name(id="getattr"), args=[asked, ast.Constant(value=name), _]
                ):
                    if name == node.attr and ast.unparse(asked) == text:
                        return True
                case ast.Call(func=ast.Name(id="isinstance"), args=[asked, kinds]):
                    if ast.unparse(asked) == text and self._kinds_have(kinds, scope, node.attr):
                        return True
        return False

    def _kinds_have(self, kinds: ast.expr, scope: Scope, name: str) -> bool:
        parts = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
        return any(
            not isinstance(value, ClassValue)
            or self.inference.attribute(InstanceValue(value.info), name) is not None
            for part in parts
            for value in self.inference.evaluate(part, scope)
        )

    def _may_have(self, value: Value, name: str, passed_on: bool = False) -> bool:
        exact = False
        match value:
            case ModuleValue():
                return False
            case InstanceValue(info, exact):
                pass
            case ClassValue(info) | SuperValue(info):
                pass
            case _:
                return True
        if not exact:
            derived = self.evidence.subclasses(info)
            if not derived and "Mixin" in info.name:
                return True  # made for classes that are not in this tree
            if self.inference.lineage(info).is_structural:
                return True
            if self.evidence.any_has(derived, name):
                return True
        targets = () if passed_on else members.delegates(self.inference, info)
        if any(self._may_have(target, name, passed_on=True) for target in targets):
            return True
        return self.evidence.set_from_outside(info, name) is not None

    # ---------------------------------------------------------------- reports

    def _report(
        self,
        code: str,
        message: str,
        at: Reference,
        node: ast.AST,
        *,
        expected: str,
        found: str,
        near: Sequence[Candidate] = (),
        severity: Severity = Severity.ERROR,
    ) -> None:
        site = at.scope.module.source.site(node, scope=at.scope.qualified)
        self.result.findings.append(
            Finding(
                code=code,
                message=message,
                severity=severity,
                level=LEVEL,
                site=site,
                expected=expected,
                found=found,
                nearest=tuple(near),
                next_step=_advice(code, near),
            )
        )


def _advice(code: str, near: Sequence[Candidate]) -> str:
    if code == "names.unproved":
        return "run the import level on the target, or take a name that SGLang itself uses"
    if code == "names.unbound":
        return "move the new code below the line that gives the name its value"
    if near and near[0].score == 1.0:
        return f"take it from {near[0].site.path}"
    if near:
        return f"see whether {near[0].text} is what was meant"
    return "check whether the new code stands in the right place, and take a name that exists"


def _companion_use(program: Program, dotted: str) -> Site | None:
    """Where the tree takes a companion package's name by the same path."""
    package, _, name = dotted.rpartition(".")
    direct = re.compile(rb"\b" + re.escape(dotted.encode()) + rb"\b")
    for module in program.containing(package.partition(".")[0].encode(), name.encode()):
        if not module.readable:
            continue
        for node in ast.walk(module.scope.node):
            match node:
                case ast.ImportFrom(module=source, names=names) if source == package:
                    if any(alias.name == name for alias in names):
                        return module.source.site(node, scope="")
                case ast.Attribute(attr=attr) if attr == name:
                    if direct.fullmatch(ast.unparse(node).encode()):
                        return module.source.site(node, scope="")
    return None
