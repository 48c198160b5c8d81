"""Every place that decides by algorithm, by speculative input, or by the width of a draft tree.

``visit`` collects what may be one, from its form alone; ``resolve`` keeps those whose symbol this
release knows, because which names are algorithms, predicates or inputs is a fact of the release.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from inventory import _dispatch_cases
from inventory._syntax import context, functions, last_name, one_line, qualified, shown
from inventory.algorithms import ENUM, PLUGIN_CLASS, Algorithms, known
from inventory.model import Inventory, Query, Row, Value
from inventory.spec_inputs import ROOT, TYPES, input_classes
from inventory.workers import worker_classes
from patcher.pattern import Pattern
from patcher.source import Source

_ISINSTANCE = Pattern("isinstance($SUBJECT, $TYPES)")
_BY_NAME = Pattern("getattr($SUBJECT, $NAME, $...)", where={"NAME": r"""["']\w+["']"""})
_SELECTED = Pattern("return $CLASS", where={"CLASS": r"\w*Worker\w*"})
_BUILT = re.compile(r"\w*(?:Verify|Draft|DraftExtend)Input\w*")
_PREDICATE = re.compile(r"(?:is|supports|needs?|has|carries|uses|requires|allows)_\w+")
_DEFINED_IN = (ENUM, PLUGIN_CLASS, ROOT)
_WIDTHS = re.compile(r"(?:speculative_)?(?:eagle_|spec_|tree_|draft_)?topk")
_WIDE_WORDS = (b"eagle_topk", b"spec_info", b"speculative")
_CONDITIONS = ("if", "while", "ternary", "assert", "comprehension", "match")
_TAKES_TRUTH = (ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.comprehension, ast.stmt)
_ALGORITHMIC = re.compile(r"spec|algo|draft", re.IGNORECASE)
_NAMED = re.compile(r"[A-Z][A-Z0-9_]*")


def visit(source: Source) -> Iterator[Row]:
    """All candidates of one file."""
    yield from _definitions(source)
    wide = any(word in source.data for word in _WIDE_WORDS)
    for node in source.nodes(ast.Attribute, ast.Name):
        assert isinstance(node, ast.Attribute | ast.Name)
        form = _form(node.attr if isinstance(node, ast.Attribute) else node.id)
        if not form or not isinstance(node.ctx, ast.Load):
            continue
        if form == "predicate":
            yield from _predicate(source, node)
        elif form == "width" and wide:
            yield from _width(source, node)
        elif form == "member" and isinstance(node, ast.Attribute):
            yield from _member(source, node)
    yield from _names(source)
    yield from _classes(source)


@cache
def _form(name: str) -> str:
    """What a name may be, by how it is written: predicate, width, member, or nothing."""
    if _PREDICATE.fullmatch(name):
        return "predicate"
    if _WIDTHS.fullmatch(name):
        return "width"
    return "member" if _NAMED.fullmatch(name) else ""


def _definitions(source: Source) -> Iterator[Row]:
    for function in functions(source):
        owner = source.parent(function)
        if isinstance(owner, ast.ClassDef) and owner.name in _DEFINED_IN:
            returned = [n for n in ast.walk(function) if isinstance(n, ast.Return)]
            test = "; ".join(shown(source, r.value) for r in returned)
            fields = _fields(function.name, "definition", owner.name, "definition", test)
            yield Row(source.site(function, qualified(source, function)), fields)


def _predicate(source: Source, node: ast.Attribute | ast.Name) -> Iterator[Row]:
    """``x.is_dflash()``; the same name without a call where it is (part of) a condition."""
    name, call = last_name(node), source.parent(node)
    subject = shown(source, node.value) if isinstance(node, ast.Attribute) else ""
    if isinstance(node, ast.Attribute) and isinstance(call, ast.Call) and call.func is node:
        yield _row(source, call, name, "predicate-call", subject)
    elif context(source, node)[0] in _CONDITIONS:
        yield _row(source, node, name, "predicate-value", subject)


def _member(source: Source, node: ast.Attribute) -> Iterator[Row]:
    """``SpeculativeAlgorithm.DFLASH``, ``SpecInputType.DFLASH_VERIFY``, ``cls.NONE`` inside."""
    owner = last_name(node.value)
    if owner == "cls":
        owner = source.scope_of(node).partition(".")[0]
    if owner in (ENUM, TYPES):
        symbol = f"{TYPES}.{node.attr}" if owner == TYPES else node.attr
        yield _row(source, node, symbol, *_use(source, node))


def _names(source: Source) -> Iterator[Row]:
    """The name of an algorithm as a string: compared, looked up, or listed."""
    for node in source.nodes(ast.Constant):
        assert isinstance(node, ast.Constant)
        if not isinstance(node.value, str) or not _NAMED.fullmatch(node.value):
            continue
        kind, subject = _use(source, node)
        if kind != "reference":
            yield _row(source, node, node.value, kind, subject)


def _use(source: Source, node: ast.expr) -> tuple[str, str]:
    """How a member or name is used, and the text of what it is held against."""
    around = source.parent(node)
    listed: ast.AST = node
    if isinstance(around, ast.Tuple | ast.List | ast.Set):
        listed, around = around, source.parent(around)
        if isinstance(around, ast.Call) and last_name(around) in ("frozenset", "set", "tuple"):
            listed, around = around, source.parent(around)
    if isinstance(around, ast.Compare):
        sides = [around.left, *around.comparators]
        others = " , ".join(shown(source, side) for side in sides if side is not listed)
        within = any(isinstance(op, ast.In | ast.NotIn) for op in around.ops)
        return ("membership" if within else "comparison"), others
    if isinstance(around, ast.MatchValue):
        return "comparison", _matched(source, around)
    if isinstance(around, ast.keyword) and around.arg == "choices":
        return "choices", _option(source, around)
    if isinstance(around, ast.Dict) and listed in around.keys:
        return "mapping", _target(source, around)
    if isinstance(around, ast.Subscript) and around.slice is listed:
        return "mapping", shown(source, around.value)
    if listed is not node:
        return "collection", _target(source, listed)
    return _given(source, node, around)


def _given(source: Source, node: ast.expr, around: ast.AST | None) -> tuple[str, str]:
    """A member or name that is handed on: to a call or a name that speaks of algorithms."""
    if isinstance(around, ast.keyword) and _ALGORITHMIC.search(around.arg or ""):
        return "assignment", str(around.arg)
    if isinstance(around, ast.Call) and _ALGORITHMIC.search(last_name(around)):
        return "argument", shown(source, around.func)
    if isinstance(around, ast.Assign | ast.AnnAssign):
        target = _target(source, node)
        if _ALGORITHMIC.search(target):
            return "assignment", target
    return "reference", ""


def _matched(source: Source, node: ast.AST) -> str:
    for around in source.ancestors(node):
        if isinstance(around, ast.Match):
            return shown(source, around.subject)
    return ""


def _option(source: Source, node: ast.AST) -> str:
    call = source.parent(node)
    first = call.args[0] if isinstance(call, ast.Call) and call.args else None
    return str(first.value) if isinstance(first, ast.Constant) else shown(source, first)


def _target(source: Source, node: ast.AST) -> str:
    """The name that a collection is given to."""
    statement = source.statement(node)
    if isinstance(statement, ast.Assign):
        return shown(source, statement.targets[0])
    return shown(source, statement.target) if isinstance(statement, ast.AnnAssign) else ""


def _width(source: Source, node: ast.Attribute | ast.Name) -> Iterator[Row]:
    """``topk > 1`` and the like; ``topk`` alone counts only where speculation is spoken of."""
    if isinstance(node, ast.Attribute) and last_name(node.value) in ("torch", "F"):
        return
    symbol = last_name(node).removeprefix("speculative_")
    holder = _operand(source, node)
    if isinstance(holder, ast.Compare):
        yield _row(source, node, symbol, "comparison", shown(source, node), shows=holder)
    elif isinstance(holder, _TAKES_TRUTH) and context(source, node)[0] in _CONDITIONS:
        yield _row(source, node, symbol, "truth", shown(source, node))


def _operand(source: Source, node: ast.expr) -> ast.AST | None:
    """What takes a value as its operand, through ``int(x)`` and ``x or 0``."""
    inner: ast.AST = node
    around = source.parent(node)
    while (isinstance(around, ast.Call) and last_name(around) == "int") or _defaulted(around):
        assert around is not None
        inner, around = around, source.parent(around)
    if isinstance(around, ast.IfExp) and around.test is not inner:
        return None
    return around


def _defaulted(node: ast.AST | None) -> bool:
    """Whether a node is ``x or 0``: a value with a stand-in."""
    return (
        isinstance(node, ast.BoolOp)
        and isinstance(node.op, ast.Or)
        and isinstance(node.values[-1], ast.Constant)
    )


def _classes(source: Source) -> Iterator[Row]:
    """Inputs and workers by class, and predicates asked for by name."""
    for match in _BY_NAME.find(source):
        name = ast.literal_eval(match.text("NAME"))
        yield _row(source, match.node, name, "predicate-call", match.text("SUBJECT"))
    for match in _ISINSTANCE.find(source):
        types = match.bound("TYPES")
        for item in types.elts if isinstance(types, ast.Tuple) else [types]:
            if name := last_name(item):
                yield _row(source, match.node, name, "isinstance", match.text("SUBJECT"))
    for node in source.nodes(ast.Call):
        if _BUILT.fullmatch(last_name(node)):
            yield _row(source, node, last_name(node), "construction", "")
    for match in _SELECTED.find(source):
        name = last_name(match.bound("CLASS"))
        yield _row(source, match.node, name, "selection", "")


def _row(
    source: Source,
    node: ast.AST,
    symbol: str,
    kind: str,
    subject: str,
    *,
    shows: ast.AST | None = None,
) -> Row:
    word, whole = context(source, node)
    test = whole if word in _CONDITIONS else (shows or node)
    if kind in ("choices", "collection", "mapping", "comparison", "membership") and test is node:
        test = whole
    fields = _fields(symbol, kind, subject, word, shown(source, test))
    return Row(source.site(node), fields)


def _fields(symbol: str, kind: str, subject: str, word: str, test: str) -> dict[str, Value]:
    return {
        "symbol": symbol,
        "kind": kind,
        "family": "",
        "on": (),
        "context": word,
        "subject": one_line(subject),
        "test": test,
    }


# ------------------------------------------------------------------------ resolving


@dataclass(frozen=True)
class _Release:
    """The names that decide in this release."""

    algorithms: Algorithms
    inputs: frozenset[str]
    input_predicates: frozenset[str]
    workers: frozenset[str]

    def asks(self, row: Row) -> tuple[str, tuple[str, ...]] | None:
        """Family and algorithms of a candidate, or None where it does not dispatch."""
        symbol, kind = str(row.fields["symbol"]), row.fields["kind"]
        if _WIDTHS.fullmatch(symbol):
            return "topk", ()
        if symbol.startswith(f"{TYPES}.") or symbol in self.inputs:
            on = self.algorithms.of_class(symbol.removeprefix(f"{TYPES}."))
            return "input-type", on
        if symbol in (ENUM, PLUGIN_CLASS) and kind == "isinstance":
            return "registry", ()
        if symbol in self.workers and kind in ("selection", "isinstance"):
            on = self.algorithms.of_class(symbol)
            return _family(on), on
        if symbol in self.algorithms.aliases:
            return ("alias", ()) if self._about_algorithms(row) else None
        if symbol in self.algorithms.members:
            return (_family((symbol,)), (symbol,)) if self._about_algorithms(row) else None
        return self._predicate(row, symbol, str(kind))

    def _predicate(self, row: Row, symbol: str, kind: str) -> tuple[str, tuple[str, ...]] | None:
        if kind not in ("predicate-call", "predicate-value", "definition"):
            return None
        owner = str(row.fields["subject"])
        on = self.algorithms.predicates.get(symbol)
        of_input = symbol in self.input_predicates
        if kind == "definition":
            on, of_input = (None, of_input) if owner == ROOT else (on, False)
        if of_input:
            return "input-type", ()
        if on is None:
            return None
        particular = set(on) - {"NONE"}
        return (_family(on), on) if particular or self._about_algorithms(row) else None

    def _about_algorithms(self, row: Row) -> bool:
        """Names that other things have too (``NONE``, ``is_none``) count by what is asked."""
        symbol, subject = str(row.fields["symbol"]), str(row.fields["subject"])
        if row.fields["kind"] in ("reference", "definition") or symbol not in ("NONE", "is_none"):
            return True
        return subject in ("self", "cls", PLUGIN_CLASS) or bool(_ALGORITHMIC.search(subject))


def _family(on: tuple[str, ...]) -> str:
    """``eagle`` for EAGLE and EAGLE3, the one algorithm's name, or ``several``."""
    names = {"eagle" if re.fullmatch(r"EAGLE\d*", m) else m.lower() for m in on if m != "NONE"}
    if len(names) > 1:
        return "several"
    return next(iter(names), "none" if on else "any")


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterator[Row]:
    """Keep the candidates whose symbol this release knows, with family and algorithms."""
    release = _release(inventory)
    for row in rows:
        found = release.asks(row)
        if found is not None:
            yield Row(row.site, {**row.fields, "family": found[0], "on": found[1]})


def _release(inventory: Inventory) -> _Release:
    inputs = inventory.of("spec_inputs")
    return _Release(
        algorithms=known(inventory),
        inputs=frozenset(input_classes(inputs)),
        input_predicates=frozenset(_input_predicates(inputs)),
        workers=frozenset(worker_classes(inventory.of("workers"))),
    )


def _input_predicates(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        name = str(row.fields["name"])
        method = row.fields["role"] == "method" and row.fields["owner"] == ROOT
        if method and _PREDICATE.fullmatch(name):
            yield name


QUERY = Query(
    id="dispatch",
    title="Dispatch sites",
    why="A release that branches on an algorithm, an input type or the tree width in a place that"
    " nobody looked at is not supported, whatever else still applies.",
    columns={
        "symbol": "what is decided on: a predicate, member, class, or the width's name",
        "kind": "predicate-call, predicate-value, comparison, membership, isinstance, choices,"
        " mapping, collection, construction, selection, truth, assignment, argument, reference or"
        " definition",
        "test": "the whole condition",
        "on": "the algorithms that the symbol names, also through other predicates",
        "family": "eagle, input-type, topk, registry, alias, none, any, several, or the one"
        " algorithm's name in lower case",
        "context": "if, while, ternary, assert, comprehension, match, else the statement",
        "subject": "what is asked or compared",
    },
    prefilter=(
        b"spec_algo",
        b"speculative",
        b"spec_info",
        b"SpecInput",
        b"VerifyInput",
        b"DraftInput",
        b"eagle",
        b"EAGLE",
        b"DFLASH",
        b"dflash",
    ),
    visit=visit,
    resolve=resolve,
    cases=_dispatch_cases.CASES,
    order=(("kind", ("definition",)),),
    expects={
        "is_eagle()": {"symbol": "is_eagle", "kind": "predicate-call"},
        "topk": {"family": "topk"},
    },
)
