"""Every ``speculative_*`` argument: declared, offered, derived, validated, read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from inventory._conditions import condition, reached_when
from inventory._syntax import last_name, one_line, shown
from inventory.model import Case, Inventory, Query, Row, Value
from patcher.pattern import Pattern
from patcher.source import Source

_NAME = r"speculative_\w+"
_FLAG = r"""["']--speculative-[\w-]+["']"""
_FIELD = Pattern("$NAME: $TYPE", where={"NAME": _NAME})
_OPTION = Pattern("$PARSER.add_argument($FLAG, $...REST)", where={"FLAG": _FLAG})
_CHOICES = Pattern("$PARSER.add_argument($FLAG, choices=$CHOICES, $...REST)", where={"FLAG": _FLAG})
_RAISE = Pattern("raise $ERROR")
_SETTERS = ("declare_resolution", "declare_direct_writes", "override", "setattr")
_HOLDERS = re.compile(r"self|cfg|config|spec|\w*args")
_MENTIONED = re.compile(r"--(speculative-[\w-]*\w)|\b(speculative_\w*[a-z])\b")
_ALGORITHM = "speculative_algorithm"


def visit(source: Source) -> Iterator[Row]:
    """All uses of the arguments in one file."""
    yield from _declarations(source)
    for match in _OPTION.find(source):
        flags = [ast.literal_eval(match.text("FLAG"))]
        rest = (a for a in match.bindings["REST"] if isinstance(a, ast.Constant))
        flags += [str(a.value) for a in rest]
        yield _row(source, match.node, flags[0], "option", ", ".join(flags))
    for match in _CHOICES.find(source):
        yield _choices(source, match.bound("CHOICES"), ast.literal_eval(match.text("FLAG")))
    yield from _derivations(source)
    yield from _validations(source)
    for node in source.nodes(ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if re.fullmatch(_NAME, node.attr) and isinstance(node.ctx, ast.Load):
            yield _row(source, node, node.attr, "read", shown(source, node))


def _declarations(source: Source) -> Iterator[Row]:
    """Fields of a class; an annotated one is its own option, and may restrict its choices."""
    for match in _FIELD.find(source):
        field = match.node
        assert isinstance(field, ast.AnnAssign)
        if not isinstance(source.parent(field), ast.ClassDef):
            continue
        name, default = match.text("NAME"), shown(source, field.value)
        yield _row(source, field, name, "declaration", default, kind=match.text("TYPE"))
        given: dict[str | None, ast.expr] = {}
        for node in ast.walk(field.annotation):
            if isinstance(node, ast.Subscript) and last_name(node.value) == "Literal":
                yield _choices(source, node.slice, name)
            elif isinstance(node, ast.Call) and last_name(node) == "Arg":
                given = {keyword.arg: keyword.value for keyword in node.keywords}
        if "choices" in given:
            yield _choices(source, given["choices"], name)
        annotated = isinstance(field.annotation, ast.Subscript) and (
            last_name(field.annotation.value) in ("A", "Annotated")
        )
        if annotated and "no_cli" not in given:
            flags = [_text(given.get("cli_name")) or "--" + name.replace("_", "-")]
            flags += map(_text, getattr(given.get("aliases"), "elts", ()))
            yield _row(source, field.annotation, name, "option", ", ".join(flags))


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _choices(source: Source, node: ast.AST, name: str) -> Row:
    items = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]
    named = tuple(
        item.value
        for item in items
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    )
    return _row(source, node, name, "choices", shown(source, node), choices=named)


def _derivations(source: Source) -> Iterator[Row]:
    for node in source.nodes(ast.Assign, ast.AugAssign, ast.AnnAssign):
        assert isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in [t for outer in targets for t in getattr(outer, "elts", [outer])]:
            if not isinstance(target, ast.Attribute) or not re.fullmatch(_NAME, target.attr):
                continue
            if _HOLDERS.fullmatch(last_name(target.value)):
                value = shown(source, node.value)
                holder, when = last_name(target.value), reached_when(source, target)
                yield _row(
                    source, target, target.attr, "derivation", value, holder=holder, when=when
                )
    for call in source.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        if last_name(call) in _SETTERS:
            for keyword in call.keywords:
                if keyword.arg and re.fullmatch(_NAME, keyword.arg):
                    value = shown(source, keyword.value)
                    holder, when = last_name(call), reached_when(source, call)
                    yield _row(
                        source, keyword, keyword.arg, "derivation", value, holder=holder, when=when
                    )


def _validations(source: Source) -> Iterator[Row]:
    """Raises and asserts that a condition or the message ties to an argument."""
    for match in _RAISE.find(source):
        refuses = reached_when(source, match.node)
        yield from _validation(source, match.node, match.text("ERROR"), refuses=refuses)
    for node in source.nodes(ast.Assert):
        assert isinstance(node, ast.Assert)
        message = "" if node.msg is None else source.text(node.msg)
        demands, when = condition(source, node.test), reached_when(source, node)
        yield from _validation(source, node, message, demands=demands, when=when)


def _validation(
    source: Source,
    node: ast.AST,
    message: str,
    *,
    refuses: str = "",
    demands: str = "",
    when: str = "",
) -> Iterator[Row]:
    said = " ".join((refuses, demands, when, message))
    found = {a or b for a, b in _MENTIONED.findall(said)}
    names = {n.replace("-", "_") for n in found}
    if not names and "speculative decoding" in message:
        names = {_ALGORITHM}
    for name in sorted(names - {"speculative_decoding"}):
        yield _row(
            source, node, name, "validation", message, refuses=refuses, demands=demands, when=when
        )


def _row(
    source: Source,
    node: ast.AST,
    name: str,
    role: str,
    value: str,
    *,
    kind: str = "",
    choices: tuple[str, ...] = (),
    refuses: str = "",
    demands: str = "",
    when: str = "",
    holder: str = "",
) -> Row:
    fields: dict[str, Value] = {
        "argument": name.removeprefix("--").replace("-", "_"),
        "role": role,
        "value": one_line(value),
        "type": one_line(kind),
        "choices": choices,
        "refuses": refuses,
        "demands": demands,
        "when": when,
        "holder": holder,
    }
    return Row(source.site(node), fields)


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterator[Row]:
    """Keep assignments to ``self`` only in classes that declare arguments."""
    owners = {(r.site.path, r.site.scope) for r in rows if r.fields["role"] == "declaration"}
    declared = {r.fields["argument"] for r in rows if r.fields["role"] in ("declaration", "option")}
    for row in rows:
        role = row.fields["role"]
        if role == "derivation" and row.fields["holder"] == "self":
            place = row.site.path, row.site.scope.split(".")[0]
            if place not in owners:
                continue
        if role != "validation" or row.fields["argument"] in declared or not declared:
            yield row


_OLD = Case(
    "a dataclass field, its option with choices, a derivation and a validation",
    {
        "sglang/srt/server_args.py": """\
@dataclass
class ServerArgs:
    speculative_algorithm: Optional[str] = None

    def _handle(self):
        if self.speculative_algorithm == "NEXTN":
            self.speculative_algorithm = "EAGLE"
        if self.speculative_algorithm == "DFLASH":
            if self.pp_size != 1:
                raise ValueError("pipelines are not supported")

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument(
            "--speculative-algorithm", "--algo", type=str, choices=["DFLASH", "EAGLE"]
        )

class Worker:
    def __init__(self, server_args):
        self.speculative_algorithm = server_args.other
""",
    },
    (
        {
            "argument": "speculative_algorithm",
            "role": "declaration",
            "value": "None",
            "type": "Optional[str]",
            "line": 3,
            "scope": "ServerArgs",
        },
        {"role": "option", "value": "--speculative-algorithm, --algo", "line": 14},
        {"role": "choices", "choices": ("DFLASH", "EAGLE"), "line": 15},
        {"role": "derivation", "value": '"EAGLE"', "line": 7, "holder": "self"},
        {
            "role": "validation",
            "argument": "speculative_algorithm",
            "line": 10,
            "refuses": 'self.speculative_algorithm == "DFLASH" and self.pp_size != 1',
        },
        {"role": "read", "value": "self.speculative_algorithm", "line": 6},
        {"role": "read", "line": 8},
    ),
)
_NEW = Case(
    "an annotated field of a struct, declared resolutions, and a message that names the option",
    {
        "sglang/srt/fields.py": """\
class Spec(msgspec.Struct):
    speculative_eagle_topk: A[Optional[int], Arg(choices=WIDTHS, aliases=["--topk"])] = None
    speculative_mode: A[Literal["ar", "rs"], Arg(cli_name="--spec-mode")] = "ar"
    speculative_inner: A[int, Arg(no_cli=True)] = 1

def handle(server_args, cfg):
    declare_resolution(server_args, "handle", speculative_eagle_topk=1)
    cfg.speculative_mode = "rs"
    if broken:
        raise ValueError("--speculative-mode is needed")
""",
    },
    (
        {"role": "declaration", "argument": "speculative_eagle_topk", "value": "None"},
        {"role": "option", "value": "--speculative-eagle-topk, --topk"},
        {"role": "choices", "argument": "speculative_eagle_topk", "value": "WIDTHS"},
        {"role": "derivation", "value": "1", "holder": "declare_resolution", "line": 7},
        {"role": "declaration", "argument": "speculative_inner", "value": "1"},
        {"role": "declaration", "argument": "speculative_mode", "value": '"ar"'},
        {"role": "option", "value": "--spec-mode"},
        {"role": "choices", "argument": "speculative_mode", "choices": ("ar", "rs")},
        {"role": "derivation", "value": '"rs"', "holder": "cfg"},
        {"role": "validation", "argument": "speculative_mode", "refuses": "broken", "line": 10},
    ),
)
_CHECKED = Case(
    "what a raise refuses and an assert demands, with every branch that leads there",
    {
        "sglang/srt/server_args.py": """\
class ServerArgs:
    speculative_num_steps: Optional[int] = None

    def check(self):
        if self.attention_backend == "a" or self.decode_backend == "a":
            if self.speculative_num_steps > 1:
                raise ValueError("one step only")
        if self.speculative_num_steps is None:
            self.speculative_num_steps = 3
        elif self.hip or (
            self.npu  # neither
        ):
            pass
        else:
            if not self.disabled:
                raise ValueError("radix cache")
            assert self.page_size == 1, "pages"
""",
    },
    (
        {"role": "declaration", "refuses": "", "demands": "", "when": ""},
        {
            "role": "derivation",
            "value": "3",
            "when": "self.speculative_num_steps is None",
        },
        {
            "role": "validation",
            "refuses": '(self.attention_backend == "a" or self.decode_backend == "a")'
            " and self.speculative_num_steps > 1",
            "demands": "",
            "when": "",
        },
        {
            "role": "validation",
            "refuses": "self.speculative_num_steps is not None"
            " and not (self.hip or ( self.npu )) and not self.disabled",
        },
        {
            "role": "validation",
            "refuses": "",
            "demands": "self.page_size == 1",
            "when": "self.speculative_num_steps is not None and not (self.hip or ( self.npu ))",
        },
        {"role": "read", "line": 6},
        {"role": "read", "line": 8},
    ),
)

QUERY = Query(
    id="arguments",
    title="Speculative arguments",
    why="A new algorithm's name and sizes must get through the command line, the derivation of"
    " defaults and the validation of each release.",
    columns={
        "argument": "the field's name",
        "role": "declaration, option, choices, derivation, validation or read",
        "value": "the default, flags, choices, assigned value, error or expression",
        "choices": "literal choices; empty where a name stands for them",
        "refuses": "of a raise: the whole condition that must not hold, outermost test first",
        "demands": "of an assert: the condition that must hold",
        "when": "the conditions under which an assert or a derivation is reached",
        "type": "annotation of a declaration",
        "holder": "what a derived value is assigned to",
    },
    prefilter=(b"speculative_", b"--speculative-", b"speculative decoding"),
    visit=visit,
    resolve=resolve,
    cases=(_OLD, _NEW, _CHECKED),
    order=(
        ("argument", (_ALGORITHM,)),
        ("argument", ()),
        ("role", ("declaration", "option", "choices", "derivation", "validation", "read")),
    ),
    expects={
        name: {"argument": name, "role": "declaration"}
        for name in (_ALGORITHM, "speculative_eagle_topk", "speculative_num_draft_tokens")
    },
)
