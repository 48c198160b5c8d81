"""Does the patched tree have the names that its code imports? Answered from syntax alone.

A module is looked up first among the new contents, then on the disk. A star import, a module
level ``__getattr__``, a use of ``globals()`` or an extension module make a module *open*: any
name may be there, so none is called missing.
"""

import ast
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple

_ALWAYS = {"__name__", "__file__", "__doc__", "__path__", "__package__", "__spec__", "__loader__"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Bound(NamedTuple):
    """What a module binds at its top level; ``is_open`` when it may bind more."""

    names: Set[str]
    is_open: bool


def bound(tree: ast.Module) -> Bound:
    """Return the names that a module binds."""
    names: Set[str] = set()
    is_open = False
    stack: List[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            is_open = is_open or node.name == "__getattr__"
            # ``global x`` inside a function binds at the top level, too.
            for inner in ast.walk(node):
                if isinstance(inner, ast.Global):
                    names.update(inner.names)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                is_open = is_open or alias.name == "*"
                names.add(alias.asname or alias.name.partition(".")[0])
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                names.add(node.id)
            is_open = is_open or node.id in ("globals", "vars", "exec", "setattr")
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif type(node).__name__ in ("MatchAs", "MatchStar") and getattr(node, "name", None):
            names.add(node.name)  # type: ignore[attr-defined]
        stack.extend(ast.iter_child_nodes(node))
    return Bound(names, is_open)


class Use(NamedTuple):
    """An import of the package: ``from module import name`` (``name`` empty: ``import module``).

    ``line`` counts from 1. ``lazy`` imports run when a function does, not when the module loads;
    ``guarded`` ones are allowed to fail, because a handler is around them.
    """

    line: int
    module: str
    name: str
    lazy: bool
    guarded: bool


def module_of(path: str) -> Tuple[str, bool]:
    """Return the dotted name of a file, and whether it is a package."""
    dotted = path[: -len(".py")].replace("/", ".")
    if dotted.endswith(".__init__"):
        return dotted[: -len(".__init__")], True
    return dotted, False


def _handles_import(node: ast.Try) -> bool:
    for handler in node.handlers:
        kinds = [handler.type] if not isinstance(handler.type, ast.Tuple) else handler.type.elts
        for kind in kinds:
            name = getattr(kind, "id", getattr(kind, "attr", "")) if kind is not None else ""
            if kind is None or name in ("ImportError", "ModuleNotFoundError", "Exception"):
                return True
    return False


def uses(path: str, tree: ast.Module, package: str = "sglang") -> List[Use]:
    """Return what the file at ``path`` imports from ``package``."""
    here, is_package = module_of(path)
    parts = here.split(".") if is_package else here.split(".")[:-1]
    found: List[Use] = []

    def visit(node: ast.AST, lazy: bool, guarded: bool) -> None:
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = parts[: len(parts) - node.level + 1]
                base = ".".join(up + ([base] if base else []))
            if base.partition(".")[0] == package:
                names = ["" if alias.name == "*" else alias.name for alias in node.names]
                found.extend(Use(node.lineno, base, name, lazy, guarded) for name in names)
        elif isinstance(node, ast.Import):
            modules = [a.name for a in node.names if a.name.partition(".")[0] == package]
            found.extend(Use(node.lineno, name, "", lazy, guarded) for name in modules)
        elif isinstance(node, ast.Try) and _handles_import(node):
            for statement in node.body:
                visit(statement, lazy, True)
            rest: List[ast.AST] = [*node.handlers, *node.orelse, *node.finalbody]
            for inner in rest:
                visit(inner, lazy, guarded)
            return
        inside = lazy or (isinstance(node, _SCOPES) and not isinstance(node, ast.ClassDef))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            inside = True  # never runs when the module loads
        for child in ast.iter_child_nodes(node):
            visit(child, inside, guarded)

    visit(tree, False, False)
    return found


class Resolver:
    """Answers whether a module has a name.

    ``read`` gives a file's bytes or None, ``listing`` the names in a directory or None.
    """

    def __init__(
        self,
        read: Callable[[str], Optional[bytes]],
        listing: Callable[[str], Optional[List[str]]],
    ) -> None:
        self._read = read
        self._listing = listing
        self._bound: Dict[str, Optional[Bound]] = {}

    def _bindings(self, module: str) -> Optional[Bound]:
        """Return what a module binds; None when there is no such module."""
        if module not in self._bound:
            self._bound[module] = self._load(module)
        return self._bound[module]

    def _load(self, module: str) -> Optional[Bound]:
        base = module.replace(".", "/")
        for path in (base + "/__init__.py", base + ".py"):
            source = self._read(path)
            if source is not None:
                try:
                    return bound(ast.parse(source))
                except (SyntaxError, ValueError):  # not ours to judge: `parse` does
                    return Bound(set(), True)
        if self._listing(base) is not None:
            return Bound(set(), False)  # a namespace package
        head, _, name = base.rpartition("/")
        for entry in self._listing(head) or []:
            if entry.startswith(name + ".") and entry.endswith(".so"):
                return Bound(set(), True)
        return None

    def missing(self, module: str, name: str) -> str:
        """Say what is missing for ``from module import name``, or return an empty string."""
        found = self._bindings(module)
        if found is None:
            return "there is no module " + module
        if not name or found.is_open or name in found.names or name in _ALWAYS:
            return ""
        if self._bindings(module + "." + name) is not None:
            return ""
        return f"{module} has no {name}"
