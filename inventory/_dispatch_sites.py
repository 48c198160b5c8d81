"""What may be a dispatch site, from the form of the code alone: the candidates of one file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from inventory._dispatch_uses import COPIES, LITERAL, matched, use
from inventory._local_names import LocalNames
from inventory._syntax import context, functions, last_name, one_line, qualified, shown
from inventory.algorithms import ENUM, PLUGIN_CLASS
from inventory.model import Row, Value
from inventory.spec_inputs import ROOT, TYPES
from patcher.source import Source

PREDICATE = re.compile(r"(?:is|supports|needs?|has|carries|uses|requires|allows)_\w+")
WIDTHS = re.compile(r"(?:speculative_)?(?:eagle_|spec_|tree_|draft_)?topk")
WORDS = (
    b"spec_algo",
    b"speculative",
    b"spec_info",
    b"SpecInput",
    b"VerifyInput",
    b"DraftInput",
    b"DraftExtendInput",
    b"Worker",
    b"is_none",
    b"spec_topk",
    ENUM.encode(),
    PLUGIN_CLASS.encode(),
    # names of recorded releases: the engine would find them, but has to read every file for that
    b"STANDALONE",
    b"NGRAM",
    b"NEXTN",
    b"is_draft_input",
    b"is_ngram",
    b"is_some",
    b"is_standalone",
    b"is_verify_input",
    b"supports_spec_v2",
    b"supports_target_verify_for_draft",
)
WORDS_IN_ANY_CASE = (
    b"dflash",
    b"eagle",
    b"ddtree",
    b"frozen_kv_mtp",
    *(q + name + q for name in (b"nextn", b"ngram", b"standalone") for q in (b'"', b"'")),
)

_BUILT = re.compile(r"\w*(?:Verify|Draft|DraftExtend)Input\w*")
_DEFINED_IN = (ENUM, PLUGIN_CLASS, ROOT)
_WIDE_WORDS = (b"eagle_topk", b"spec_info", b"speculative")
_OWN_WIDTHS = ("spec_topk",)
_CONDITIONS = ("if", "while", "ternary", "assert", "comprehension", "match")
_TAKES_TRUTH = (ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.comprehension, ast.stmt)
_NAMED = re.compile(r"[A-Z][A-Z0-9_]*")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_CLASS = re.compile(r"_*[A-Z]\w*[a-z]\w*")
_ASKS_CLASS = ("isinstance", "issubclass")
_ASKS_BY_NAME = ("getattr", "methodcaller", "attrgetter")

Meaning = tuple[str, str]
"""What a variable stands for: ``predicate``, ``width``, ``member`` or ``class``, and its symbol."""


def visit(source: Source) -> Iterator[Row]:
    """All candidates of one file."""
    yield from _definitions(source)
    names = LocalNames(source, _meaning)
    wide = any(word in source.data for word in _WIDE_WORDS)
    for attribute in source.nodes(ast.Attribute):
        assert isinstance(attribute, ast.Attribute)
        if (form := _form(attribute.attr)) and type(attribute.ctx) is ast.Load:
            yield from _named(source, attribute, attribute.attr, form, names, wide)
    for node in source.nodes(ast.Name):
        assert isinstance(node, ast.Name)
        name = names.imported.get(node.id, node.id)
        form, given = _form(name), node.id in names.given
        if not (form or given) or type(node.ctx) is not ast.Load:
            continue
        if form:
            yield from _named(source, node, name, form, names, wide)
        for kind, symbol in names.meant(node) if given else ():
            if symbol != name and not kind == form == "width":
                yield from _variable(source, node, kind, symbol)
    yield from _texts(source, names)
    yield from _calls(source, names)


def _named(
    source: Source,
    node: ast.Attribute | ast.Name,
    name: str,
    form: str,
    names: LocalNames[Meaning],
    wide: bool,
) -> Iterator[Row]:
    if form == "predicate":
        return _predicate(source, node, name)
    if form == "width":
        return _width(source, node, name) if wide or name in _OWN_WIDTHS else iter(())
    if form == "member":
        return _member(source, node, names)
    return _class(source, node, name)


@cache
def _form(name: str) -> str:
    """What a name may be, by how it is written: predicate, width, member, class, or nothing."""
    if PREDICATE.fullmatch(name):
        return "predicate"
    if WIDTHS.fullmatch(name):
        return "width"
    if _NAMED.fullmatch(name):
        return "member"
    return "class" if _CLASS.fullmatch(name) else ""


@cache
def _may_name(text: str) -> bool:
    """Whether a string may be the name of an algorithm or a class."""
    return bool(_WORD.fullmatch(text)) and _form(text) not in ("predicate", "width")


def _meaning(names: LocalNames[Meaning], value: ast.expr) -> Meaning | None:
    """What a variable stands for that is given this value."""
    while (isinstance(value, ast.Call) and last_name(value) == "int" and value.args) or (
        isinstance(value, ast.BoolOp) and _defaulted(value)
    ):
        value = value.args[0] if isinstance(value, ast.Call) else value.values[0]
    if isinstance(value, ast.Call):
        name = _asked_by_name(value)
    elif isinstance(value, ast.Attribute | ast.Name):
        name = names.original(value)
    else:
        return None
    form = _form(name)
    if form == "member":
        owned = isinstance(value, ast.Attribute) and _owner(value, names)
        if not owned:
            return None
        return form, f"{TYPES}.{name}" if owned == TYPES else name
    if form == "class" and isinstance(value, ast.Call):
        return None
    if name == "topk" and isinstance(value, ast.Name):
        return None
    return (form, name) if form else None


def _definitions(source: Source) -> Iterator[Row]:
    for function in functions(source):
        owner = source.parent(function)
        if isinstance(owner, ast.ClassDef) and owner.name in _DEFINED_IN:
            returned = [n for n in ast.walk(function) if isinstance(n, ast.Return)]
            test = "; ".join(shown(source, r.value) for r in returned)
            fields = _fields(function.name, "definition", owner.name, "definition", test)
            yield Row(source.site(function, qualified(source, function)), fields)


def _predicate(source: Source, node: ast.Attribute | ast.Name, name: str) -> Iterator[Row]:
    """``x.is_dflash()``; without a call where it is (part of) a condition, or a method kept."""
    call = source.parent(node)
    subject = shown(source, node.value) if isinstance(node, ast.Attribute) else ""
    if isinstance(call, ast.Call) and call.func is node:
        if isinstance(node, ast.Attribute):
            yield _row(source, call, name, "predicate-call", subject)
    elif context(source, node)[0] in _CONDITIONS:
        yield _row(source, node, name, "predicate-value", subject)
    elif isinstance(node, ast.Attribute):
        yield _row(source, node, name, "reference", subject)


def _owner(node: ast.Attribute, names: LocalNames[Meaning]) -> str:
    """The enum that a member is taken from, by import and by variable; else nothing."""
    found = names.original(node.value)
    if found not in (ENUM, TYPES) and isinstance(node.value, ast.Name):
        found = next((s for kind, s in names.meant(node.value) if kind == "class"), "")
    return found if found in (ENUM, TYPES) else ""


def _member(
    source: Source, node: ast.Attribute | ast.Name, names: LocalNames[Meaning]
) -> Iterator[Row]:
    """``SpeculativeAlgorithm.DFLASH``, ``SpecInputType.DFLASH_VERIFY``, ``cls.NONE`` inside."""
    kind, subject = use(source, node)
    if isinstance(node, ast.Attribute):
        owner = _owner(node, names)
        if last_name(node.value) == "cls":
            owner = source.scope_of(node).partition(".")[0]
        if owner in (ENUM, TYPES):
            symbol = f"{TYPES}.{node.attr}" if owner == TYPES else node.attr
            yield _row(source, node, symbol, kind, subject)
    elif kind in ("comparison", "membership"):
        yield _row(source, node, node.id, kind, subject)


def _class(source: Source, node: ast.Attribute | ast.Name, name: str) -> Iterator[Row]:
    """A class that a type is held against: ``type(x) is C``, ``case C():``, a table by class."""
    around = source.parent(node)
    if isinstance(around, ast.MatchClass) and around.cls is node:
        yield _row(source, node, name, "isinstance", matched(source, around))
    elif "Worker" in name and isinstance(around, ast.Return | ast.IfExp):
        statement = source.statement(node)
        tested = node is getattr(around, "test", None)
        if isinstance(statement, ast.Return) and not tested:
            yield _row(source, statement, name, "selection", "")
    elif isinstance(around, ast.Compare | ast.Dict | ast.MatchValue | LITERAL) and _is_table(
        source, around
    ):
        kind, subject = use(source, node)
        if kind != "reference":
            yield _row(source, node, name, kind, subject)


def _is_table(source: Source, node: ast.AST) -> bool:
    """Whether classes stand in it to be compared or kept, not as an annotation or an argument."""
    if not isinstance(node, LITERAL):
        return True
    around = source.parent(node)
    if isinstance(around, ast.Call) and last_name(around) in COPIES:
        around = source.parent(around)
    return isinstance(around, ast.Compare | ast.Assign | ast.AnnAssign)


def _variable(source: Source, node: ast.Name, kind: str, symbol: str) -> Iterator[Row]:
    """A variable that stands for a predicate, a width, a member or a class."""
    if kind == "width":
        yield from _width(source, node, symbol)
    elif kind == "class":
        yield from _class(source, node, symbol)
    elif kind == "member":
        how, subject = use(source, node)
        if how not in ("reference", "assignment", "argument"):
            yield _row(source, node, symbol, how, subject)
    else:
        call = source.parent(node)
        if isinstance(call, ast.Call) and call.func is node:
            yield _row(source, call, symbol, "predicate-call", node.id)
        elif context(source, node)[0] in _CONDITIONS:
            yield _row(source, node, symbol, "predicate-value", node.id)


def _texts(source: Source, names: LocalNames[Meaning]) -> Iterator[Row]:
    """The name of an algorithm or class as a string: compared, looked up, or listed."""
    for node in source.nodes(ast.Constant):
        assert isinstance(node, ast.Constant)
        if type(node.value) is not str or not _may_name(node.value):
            continue
        kind, subject = use(source, _made(source, node, names))
        usual = _NAMED.fullmatch(node.value) or kind in ("comparison", "membership")
        if kind != "reference" and (usual or "algo" in subject.lower()):
            yield _row(source, node, node.value, kind, subject)


def _made(source: Source, node: ast.expr, names: LocalNames[Meaning]) -> ast.expr:
    """``SpeculativeAlgorithm.from_string("DFLASH")`` where it is held against something."""
    call = source.parent(node)
    if isinstance(call, ast.Call) and node in call.args:
        maker = call.func
        owner = maker.value if isinstance(maker, ast.Attribute) else maker
        if names.original(owner) == ENUM and use(source, call)[0] in ("comparison", "membership"):
            return call
    return node


def _width(source: Source, node: ast.expr, name: str, subject: str = "") -> Iterator[Row]:
    """``topk > 1`` and the like; ``topk`` alone counts only where speculation is spoken of."""
    if isinstance(node, ast.Attribute) and last_name(node.value) in ("torch", "F"):
        return
    symbol = name.removeprefix("speculative_")
    subject = subject or shown(source, node)
    holder = _operand(source, node)
    if isinstance(holder, ast.Compare):
        yield _row(source, node, symbol, "comparison", subject, shows=holder)
    elif isinstance(holder, _TAKES_TRUTH) and context(source, node)[0] in _CONDITIONS:
        yield _row(source, node, symbol, "truth", subject)


def _operand(source: Source, node: ast.expr) -> ast.AST | None:
    """What takes a value as its operand, through ``int(x)``, ``x or 0`` and ``(k := x)``."""
    inner: ast.AST = node
    around = source.parent(node)
    while (
        (isinstance(around, ast.Call) and last_name(around) == "int")
        or isinstance(around, ast.NamedExpr)
        or _defaulted(around)
    ):
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


def _calls(source: Source, names: LocalNames[Meaning]) -> Iterator[Row]:
    """Inputs and workers by class, inputs made, and what is asked for by name."""
    for node in source.nodes(ast.Call):
        assert isinstance(node, ast.Call)
        called = names.original(node.func)
        if called in _ASKS_CLASS and len(node.args) == 2:
            subject = shown(source, node.args[0])
            for item in _alternatives(node.args[1]):
                if name := _class_name(item, names):
                    yield _row(source, node, name, "isinstance", subject)
        elif called in _ASKS_BY_NAME and (name := _asked_by_name(node)):
            subject = shown(source, node.args[0]) if called == "getattr" else ""
            if _form(name) == "width":
                yield from _width(source, node, name, subject)
            else:
                yield _row(source, node, name, "predicate-call", subject)
        elif "Input" in called and _BUILT.fullmatch(called):
            yield _row(source, node, called, "construction", "")


def _asked_by_name(node: ast.Call) -> str:
    """``x`` of ``getattr(a, "x")``, ``attrgetter("x")`` and the like."""
    called = last_name(node)
    at = 1 if called == "getattr" else 0
    if called not in _ASKS_BY_NAME or len(node.args) <= at:
        return ""
    name = node.args[at]
    told = name.value if isinstance(name, ast.Constant) else ""
    return told if isinstance(told, str) and told.isidentifier() else ""


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    """The classes of ``(A, (B, C))`` and ``A | B``."""
    if isinstance(node, ast.Tuple):
        parts = node.elts
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    else:
        yield node
        return
    for part in parts:
        yield from _alternatives(part)


def _class_name(node: ast.expr, names: LocalNames[Meaning]) -> str:
    meant = names.meant(node) if isinstance(node, ast.Name) else []
    return next((s for kind, s in meant if kind == "class"), names.original(node))


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
