"""Searches of the whole tree, made only before something would be reported.

They answer what a class alone cannot: does a subclass have the attribute, does other code set it
from outside, where did a name move to. All of them filter on bytes before anything is parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from patcher.model import Candidate, Site
from patcher.resolve.classes import ClassInfo
from patcher.resolve.infer import Inference
from patcher.resolve.program import Module
from patcher.resolve.references import scope_at
from patcher.resolve.values import ClassValue, InstanceValue

_CLASS = re.compile(rb"class (\w+)\s*\(([^)]*)\)")


class Evidence:
    """What the rest of the tree says about a name."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self.program = inference.program
        self._subclasses: dict[ClassInfo, list[ClassInfo]] = {}
        self._calls: dict[tuple[str, ClassInfo], list[ast.Call]] = {}

    @cached_property
    def _derived(self) -> dict[bytes, list[tuple[Module, int]]]:
        """Base name to the ``class`` statements, by module and line, that name it as a base."""
        found: dict[bytes, list[tuple[Module, int]]] = {}
        for module in self.program.containing(b"class "):
            source = module.source
            for match in _CLASS.finditer(source.data):
                for base in set(re.findall(rb"\w+", match.group(2))):
                    found.setdefault(base, []).append((module, match.start(1)))
        return found

    def subclasses(self, info: ClassInfo) -> Sequence[ClassInfo]:
        """Every class of the tree that derives from one, however far."""
        if info not in self._subclasses:
            self._subclasses[info] = list(self._all_below(info))
        return self._subclasses[info]

    def _all_below(self, info: ClassInfo) -> Iterator[ClassInfo]:
        seen = {info}
        queue = [info]
        while queue:
            one = queue.pop()
            for module, offset in self._derived.get(one.name.encode(), ()):
                node = _class_on(module, module.source.line_at(offset))
                if node is None:
                    continue
                derived = self.inference.class_info(node, scope_at(module, node))
                if derived not in seen and one in self.inference.lineage(derived).classes:
                    seen.add(derived)
                    queue.append(derived)
                    yield derived

    def any_has(self, classes: Iterable[ClassInfo], name: str) -> bool:
        """Whether an object of one of the classes has, or may have, an attribute."""
        return any(
            self.inference.attribute(InstanceValue(one, exact=True), name) is not None
            for one in classes
        )

    def set_from_outside(self, info: ClassInfo, name: str) -> Site | None:
        """Where code that is no method of the class sets an attribute on what may be one."""
        word = re.escape(name.encode())
        pattern = re.compile(
            rb"\.\s*" + word + rb"\s*(?:=(?!=)|:|,[^()\n]*=)"
            rb"|setattr\(\s*[\w.]+\s*,\s*[\"']" + word + rb"[\"']"
        )
        for module, _ in self.program.matching(pattern, name.encode()):
            if not module.readable:
                continue
            nodes = list(ast.walk(module.scope.node))
            updated = {n.target for n in nodes if isinstance(n, ast.AugAssign)}
            for node in nodes:
                receiver = None if node in updated else _written(node, name)
                if receiver is not None and self._may_be(receiver, info, module):
                    return module.source.site(node, scope="")
        return None

    def _may_be(self, receiver: ast.expr, info: ClassInfo, module: Module) -> bool:
        values = self.inference.evaluate(receiver, scope_at(module, receiver))
        for value in values:
            if not isinstance(value, InstanceValue | ClassValue):
                return True
            if info in self.inference.lineage(value.info).classes:
                return True
            if value.info in self.inference.lineage(info).classes:
                return True
        return not values

    def calls_of(self, name: str, info: ClassInfo) -> list[ast.Call]:
        """The calls of a method of that name on anything that may be an object of a class."""
        if (name, info) not in self._calls:
            found = self._calls[name, info] = []
            pattern = re.compile(rb"\." + re.escape(name.encode()) + rb"\s*\(")
            for module, _ in self.program.matching(pattern, name.encode()):
                for node in ast.walk(module.scope.node):
                    match node:
                        case ast.Call(func=ast.Attribute(attr=attr, value=receiver)):
                            if attr == name and self._may_be(receiver, info, module):
                                found.append(node)
        return self._calls[name, info]

    def defined_elsewhere(self, name: str, not_in: str) -> list[Candidate]:
        """Where else in the tree a module-level name is defined: where it may have moved to."""
        word = re.escape(name.encode())
        pattern = re.compile(
            rb"^(?:(?:async[ \t]+)?def|class)[ \t]+" + word + rb"\b|^" + word + rb"[ \t]*[:=]",
            re.MULTILINE,
        )
        found = []
        for module, line in self.program.matching(pattern, name.encode()):
            if module.path != not_in:
                text = module.source.lines(line, line).decode(errors="replace").strip()
                found.append(Candidate(Site(module.path, line), 1.0, text))
        return found


def _class_on(module: Module, line: int) -> ast.ClassDef | None:
    if not module.readable:
        return None
    for node in ast.walk(module.scope.node):
        if isinstance(node, ast.ClassDef) and node.lineno == line:
            return node
    return None


def _written(node: ast.AST, name: str) -> ast.expr | None:
    """The receiver on which a node sets an attribute of that name."""
    match node:
        case ast.Attribute(attr=attr, ctx=ast.Store()) if attr == name:
            return node.value
        case ast.Call(func=ast.Name(id="setattr"), args=[receiver, ast.Constant(value=text), _]):
            return receiver if text == name else None
    return None
