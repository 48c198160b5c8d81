"""Which speculative algorithms exist, what their predicates mean, and how names become them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inventory._conditions import reached_when
from inventory._syntax import (
    Function,
    bases,
    dotted,
    last_name,
    methods,
    one_line,
    qualified,
    shown,
    signature,
)
from inventory.model import Case, Inventory, Query, Row, Value
from patcher.pattern import Pattern
from patcher.source import Source

ENUM = "SpeculativeAlgorithm"
PLUGIN_CLASS = "CustomSpecAlgo"
_BODY_OF = {name: Pattern(f"class {name}: $...BODY") for name in (ENUM, PLUGIN_CLASS)}
_MEMBER = Pattern("$NAME = $VALUE", where={"NAME": "[A-Z][A-Z0-9_]*"})
_WORKER = Pattern("return $CLASS", where={"CLASS": r"[A-Za-z_]\w*Worker\w*"})
_REGISTRY = Pattern("$NAME: $TYPE = {}", where={"TYPE": rf".*\b{PLUGIN_CLASS}\b.*"})
_ALIASES = Pattern("$NAME = frozenset({$...ITEMS})", where={"NAME": ".*ALIAS.*"})
_SUBJECT = r"(?:.*\.|_)?(?:speculative_algo\w*|spec_algo\w*)(?:\.name|\.upper\(\))?"
_COMPARED = Pattern(
    "$SUBJECT == $NAME", where={"SUBJECT": _SUBJECT, "NAME": r"""["'][A-Z][A-Z0-9_]*["']"""}
)
_PREDICATE = ("is_", "supports_")
_WORDS = tuple(w.encode() for w in (ENUM, PLUGIN_CLASS, "speculative_algo", "spec_algo"))


@dataclass(frozen=True)
class Algorithms:
    """What the other queries need to know: members, aliases, and what each predicate asks for."""

    members: tuple[str, ...]
    aliases: frozenset[str]
    predicates: Mapping[str, tuple[str, ...]]

    def of_class(self, name: str) -> tuple[str, ...]:
        """The member that a class or input type is named after, by its longest prefix."""
        plain = name.replace("_", "").upper()
        fitting = [m for m in self.members if plain.startswith(m.replace("_", ""))]
        return (max(fitting, key=len),) if fitting else ()


def known(inventory: Inventory) -> Algorithms:
    """The algorithms of a tree, from this query's rows (resolved or not)."""
    rows = [r.fields for r in inventory.of("algorithms")]
    members = tuple(str(f["name"]) for f in rows if f["role"] == "member")
    aliases = {str(f["name"]) for f in rows if f["role"] == "alias"} - {*members}
    asks = {
        str(f["name"]): _texts(f["on"])
        for f in rows
        if f["role"] == "predicate" and f["owner"] == ENUM
    }
    return Algorithms(
        members, frozenset(aliases), {n: _reached(n, asks, members) for n in sorted(asks)}
    )


def _reached(
    name: str, asks: Mapping[str, tuple[str, ...]], members: Sequence[str]
) -> tuple[str, ...]:
    """Members that a predicate names, itself or through the predicates that it asks."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo += asks.get(current, ())
    return tuple(m for m in members if m in seen)


def _texts(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def visit(source: Source) -> Iterator[Row]:
    """The enum, the plugin class, the registry and the aliases, in whatever file they stand."""
    for owner, body in _BODY_OF.items():
        for match in body.find(source):
            assert isinstance(match.node, ast.ClassDef)
            yield from _class(source, match.node, owner)
    yield from _registry(source)
    yield from _aliases(source)


def _class(source: Source, node: ast.ClassDef, owner: str) -> Iterator[Row]:
    scope = qualified(source, node)
    yield _row(source, node, "enum" if owner == ENUM else "plugin-class", node.name, owner)
    if owner == ENUM:
        for member in _MEMBER.find(source, scope):
            name = member.text("NAME")
            yield _row(source, member.node, "member", name, owner, value=member.text("VALUE"))
        for worker in _WORKER.find(source, f"{scope}.create_worker"):
            name = worker.text("CLASS")
            test = reached_when(source, worker.node, earlier=False)
            yield _row(source, worker.node, "worker", name, owner, value=test)
    for method in methods(node):
        yield _method(source, method, owner)


def _method(source: Source, method: Function, owner: str) -> Row:
    answers = method.returns is not None and ast.unparse(method.returns) == "bool"
    if not (answers or method.name.startswith(_PREDICATE)) or _is_class_method(method):
        return _row(source, method, "method", method.name, owner, signature=signature(method))
    returned = [n.value for n in ast.walk(method) if isinstance(n, ast.Return) and n.value]
    names = {n.attr for value in returned for n in ast.walk(value) if isinstance(n, ast.Attribute)}
    return _row(
        source,
        method,
        "predicate",
        method.name,
        owner,
        value="; ".join(shown(source, value) for value in returned),
        on=tuple(sorted(names)),
        signature=signature(method),
    )


def _is_class_method(method: Function) -> bool:
    return any(last_name(d) in ("classmethod", "staticmethod") for d in method.decorator_list)


def _registry(source: Source) -> Iterator[Row]:
    stores = _REGISTRY.find(source, "")
    for store in stores:
        yield _row(source, store.node, "registry", store.text("NAME"), "", value=store.text())
    if not stores:
        return
    for node in source.tree.body:
        if isinstance(node, Function):
            role = "conformance" if "conform" in node.name else "registry"
            yield _row(source, node, role, node.name, "", signature=signature(node))


def _aliases(source: Source) -> Iterator[Row]:
    """Other names for algorithms, in files that speak of them: others have aliases, too."""
    if not any(word in source.data for word in _WORDS):
        return
    for match in _ALIASES.find(source):
        for item in match.bindings["ITEMS"]:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                yield _row(source, item, "alias", item.value, match.text("NAME"))
    for match in _COMPARED.find(source):
        name = ast.literal_eval(match.text("NAME"))
        yield _row(source, match.node, "alias", name, "", value=_becomes(source, match.node))


def _becomes(source: Source, test: ast.AST) -> str:
    """What a name is replaced by where it is compared: the one string set or returned there."""
    for around in source.ancestors(test):
        if isinstance(around, ast.If):
            values = (getattr(s, "value", None) for s in around.body)
            texts = [v.value for v in values if isinstance(v, ast.Constant)]
            return next((t for t in texts if isinstance(t, str)), "")
    return ""


def _row(
    source: Source,
    node: ast.AST,
    role: str,
    name: str,
    owner: str,
    *,
    value: str = "",
    on: tuple[str, ...] = (),
    signature: str = "",
) -> Row:
    if isinstance(node, ast.ClassDef):
        value = ", ".join(dotted(b) for b in node.bases) or ", ".join(bases(node))
    fields: dict[str, Value] = {
        "role": role,
        "name": name,
        "owner": owner,
        "value": one_line(value),
        "on": on,
        "signature": signature,
    }
    return Row(source.site(node), fields)


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterable[Row]:
    """Say which members each predicate reaches, and drop compared names that are members."""
    algorithms = known(inventory)
    asked = {str(r.fields["name"]): r for r in rows if r.fields["role"] == "predicate"}
    for row in rows:
        role, name = row.fields["role"], str(row.fields["name"])
        if role == "alias" and name in algorithms.members:
            continue
        if role == "predicate":
            on = algorithms.predicates[name] if row.fields["owner"] == ENUM else ()
            yield Row(row.site, {**row.fields, "on": on})
        elif role == "member":
            true_for = tuple(sorted(p for p in asked if name in algorithms.predicates.get(p, ())))
            yield Row(row.site, {**row.fields, "on": true_for})
        else:
            yield row


_CASE = Case(
    "members, predicates through predicates, the worker of each, and an alias",
    {
        "sglang/spec.py": """\
from enum import Enum, auto

class SpeculativeAlgorithm(Enum):
    DFLASH = auto()
    EAGLE = auto()

    def is_dflash(self) -> bool:
        return self == SpeculativeAlgorithm.DFLASH

    def carries_draft(self) -> bool:
        return self.is_dflash()

    def create_worker(self, server_args):
        if self.is_dflash():
            return DFlashWorker
""",
        "sglang/args.py": """\
def resolve(server_args):
    if server_args.speculative_algorithm == "NEXTN":
        server_args.speculative_algorithm = "EAGLE"
    if server_args.speculative_algorithm == "EAGLE":
        pass
""",
    },
    (
        {"role": "enum", "name": "SpeculativeAlgorithm", "value": "Enum", "line": 3},
        {"role": "member", "name": "DFLASH", "line": 4, "on": ("carries_draft", "is_dflash")},
        {"role": "member", "name": "EAGLE", "line": 5, "on": ()},
        {"role": "alias", "name": "NEXTN", "value": "EAGLE", "line": 2},
        {"role": "worker", "name": "DFlashWorker", "value": "self.is_dflash()", "line": 15},
        {"role": "predicate", "name": "is_dflash", "on": ("DFLASH",), "line": 7},
        {"role": "predicate", "name": "carries_draft", "on": ("DFLASH",), "line": 10},
        {"role": "method", "name": "create_worker", "signature": "(self, server_args)"},
    ),
)
_REGISTERED = Case(
    "a registry, its conformance check, and reserved aliases",
    {
        "sglang/registry.py": """\
class CustomSpecAlgo:
    def is_dflash(self) -> bool:
        return False

_REGISTRY: Dict[str, CustomSpecAlgo] = {}
_RESERVED_ALIASES = frozenset({"NEXTN"})

def _assert_conforms(spec_class): ...
def register_algorithm(name: str, *, spec_class=CustomSpecAlgo): ...
""",
    },
    (
        {"role": "alias", "name": "NEXTN", "owner": "_RESERVED_ALIASES", "line": 6},
        {"role": "predicate", "name": "is_dflash", "owner": "CustomSpecAlgo", "value": "False"},
        {"role": "plugin-class", "name": "CustomSpecAlgo"},
        {"role": "registry", "name": "_REGISTRY", "line": 5},
        {
            "role": "registry",
            "name": "register_algorithm",
            "signature": "(name: str, *, spec_class=CustomSpecAlgo)",
        },
        {"role": "conformance", "name": "_assert_conforms"},
    ),
)
_UNRELATED = Case(
    "another comparison with a name in capitals is no alias",
    {"sglang/x.py": 'def f(speculative_algorithm, mode):\n    return mode == "FAST"\n'},
    (),
)

QUERY = Query(
    id="algorithms",
    title="Speculative algorithms",
    why="Where algorithms are enumerated decides where a new one must be named, and its predicates"
    " decide which branches it inherits.",
    columns={
        "name": "the member, method, class or alias",
        "role": "enum, member, predicate, method, worker, alias, registry, conformance or"
        " plugin-class",
        "on": "for a predicate the members it names, also through others; for a member the"
        " predicates that name it",
        "value": "what a member is, a predicate returns, an alias becomes; the guard of a worker",
        "signature": "of a method or function",
        "owner": "the class or constant that it belongs to",
    },
    prefilter=_WORDS,
    visit=visit,
    resolve=resolve,
    cases=(_CASE, _REGISTERED, _UNRELATED),
    order=(
        (
            "role",
            (
                "enum",
                "member",
                "alias",
                "worker",
                "predicate",
                "plugin-class",
                "registry",
                "conformance",
                "method",
            ),
        ),
    ),
    expects={
        ENUM: {"role": "enum"},
        "is_none": {"role": "predicate", "name": "is_none", "owner": ENUM},
        "is_eagle": {"role": "predicate", "name": "is_eagle", "owner": ENUM},
    },
)
