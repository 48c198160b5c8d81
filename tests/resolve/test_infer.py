"""What expressions stand for."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent

import pytest

from patcher.resolve.infer import Inference
from patcher.resolve.overrides import compare
from patcher.resolve.program import Program
from patcher.resolve.references import scope_at
from patcher.resolve.signatures import mismatch, of_function, shown, signature_of
from patcher.resolve.values import (
    ClassValue,
    External,
    FunctionValue,
    InstanceValue,
    Items,
    Many,
    ModuleValue,
    Unknown,
    Value,
)
from patcher.tree import Tree

TEXT = """
    from __future__ import annotations
    import copy
    import torch
    from dataclasses import dataclass
    from enum import Enum
    from typing import Annotated, Dict, List, Optional, Self, Tuple, Type, Union, cast
    import pkg.other as other

    class A:
        kind: Type[B]
        items: List[B]

        def __init__(self, b: B, **rest):
            self.b = b
            self.pair = (b, 1)
            self.made = B()
            self.either = B() if rest else A(b)
            self.maybe = None
            self.maybe = B()
            self.first, self.second = b.both()

        @property
        def prop(self) -> B: ...

        def me(self) -> Self: ...

        def plain(self):
            if self.b:
                return B()
            return self.made

        @classmethod
        def create(cls):
            return cls

        @torch.unknown
        def changed(self) -> B: ...

    class B:
        def both(self) -> Tuple[A, B]: ...
        async def later(self) -> B: ...
        def several(self) -> list[A]: ...
        def listed(self):
            yield B()

    class Color(Enum):
        RED = 1

    Either = Union[A, B]

    def f(a: A, opt: Optional[A], new: A | None, text: "A", alias: Either, many: List[A],
          note: Annotated[A, 1], table: Dict[str, A], plain, *args: A):
        pass
    """

EXPRESSIONS = {
    "a": "A",
    "opt": "A",
    "new": "A",
    "text": "A",
    "note": "A",
    "alias": "A | B",
    "many": "[A]",
    "many[0]": "A",
    "many[1:]": "[A]",
    "table": "?",
    "plain": "?",
    "args": "?",
    "a.b": "B",
    "a.kind": "type B",
    "a.kind()": "B",
    "a.items": "[B]",
    "[i for i in a.items][0]": "B",
    "a.pair[0]": "B",
    "a.pair[1]": "?",
    "a.made": "B",
    "a.either": "B | A",
    "a.maybe": "B",
    "a.first": "A",
    "a.second": "B",
    "a.prop": "B",
    "a.me()": "A",
    "a.plain()": "B",
    "a.changed()": "?",
    "a.create": "def create",
    "a.b.later()": "?",
    "a.b.several()": "[A]",
    "a.b.listed()": "?",
    "A(1)": "A",
    "A": "type A",
    "Color.RED": "Color",
    "copy.deepcopy(a)": "A",
    "cast(B, plain)": "B",
    "cast('B', plain)": "B",
    "a or None": "A",
    "(x := a)": "A",
    "torch.Tensor.x": "torch.Tensor.x",
    "len": "builtins.len",
    "other": "module pkg.other",
    "other.thing": "?",
    "nowhere": "?",
    "a.missing": "?",
    "None": "",
    "sorted(many)": "[A]",
    "many[0].b.both()[1].several()[0]": "A",
}


def show(value: Value) -> str:
    match value:
        case InstanceValue(info):
            return info.name
        case ClassValue(info):
            return f"type {info.name}"
        case Many(element):
            return f"[{' | '.join(map(show, element))}]"
        case Items(items):
            return f"({', '.join(' | '.join(map(show, i)) for i in items)})"
        case FunctionValue(node=node):
            return f"def {node.name}"
        case External(dotted):
            return dotted
        case ModuleValue(dotted):
            return f"module {dotted}"
        case Unknown():
            return "?"
    return repr(value)


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_an_expression_stands_for(expression: str, expected: str) -> None:
    text = f"{dedent(TEXT)}    ({expression})\n"
    tree = Tree.of({"pkg/__init__.py": "", "pkg/m.py": text, "pkg/other.py": "thing = 1\n"})
    inference = Inference(Program(tree))
    module = inference.program.module("pkg.m")
    assert module is not None
    function = module.source.tree.body[-1]
    assert isinstance(function, ast.FunctionDef)
    statement = function.body[-1]
    assert isinstance(statement, ast.Expr)
    values = inference.evaluate(statement.value, scope_at(module, statement.value))
    assert " | ".join(map(show, values)) == expected


def test_endless_inference_ends() -> None:
    text = """
        class A:
            def __init__(self):
                self.x = self.y
                self.y = self.x

            def __getattr__(self, name):
                return getattr(self.z, name)

            def loop(self):
                return self.loop()

        a = b
        b = a

        class C(D): pass
        class D(C): pass
        A().x, A().loop().z, C().q, a.b
        """
    tree = Tree.of({"pkg/__init__.py": "", "pkg/m.py": dedent(text)})
    inference = Inference(Program(tree))
    module = inference.program.module("pkg.m")
    assert module is not None
    for node in ast.walk(module.source.tree):
        if isinstance(node, ast.expr):
            inference.evaluate(node, scope_at(module, node))


SIGNATURES = [
    "(a, b=…, *args, c, d=…, **kwargs)",
    "(a, /, b, *, c)",
    "()",
    "(*, a=…)",
]


def _function(header: str) -> ast.FunctionDef:
    node = ast.parse(f"def f{header.replace('…', '0')}: ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


@pytest.mark.parametrize("header", SIGNATURES)
def test_a_signature_is_what_python_says(header: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"def f{header.replace('…', '0')}: ...", namespace)
    found = of_function(_function(header))
    assert found is not None
    real = inspect.signature(namespace["f"])  # type: ignore[arg-type]
    assert [(p.name, p.kind) for p in found.parameters.values()] == [
        (p.name, p.kind) for p in real.parameters.values()
    ]
    assert shown(found) == header


def test_binding_drops_the_first_parameter() -> None:
    found = of_function(_function("(self, a)"), bound=True)
    assert found is not None
    assert shown(found) == "(a)"
    rest = of_function(_function("(*args)"), bound=True)
    assert rest is not None
    assert shown(rest) == "(*args)"


@pytest.mark.parametrize(
    ("header", "call", "fits"),
    [
        ("(a, b)", "f(1, 2)", True),
        ("(a, b)", "f(*x)", True),
        ("(a, b)", "f(1, **x)", True),
        ("(a, b)", "f(1, 2, 3, *x)", False),
        ("(a, b)", "f(*x, c=1)", False),
        ("(a, b)", "f(1)", False),
        ("(a, /)", "f(a=1)", False),
        ("(*, a)", "f(1)", False),
        ("(a, **kw)", "f(1, z=2)", True),
    ],
)
def test_a_call_fits(header: str, call: str, fits: bool) -> None:
    signature = of_function(_function(header))
    node = ast.parse(call, mode="eval").body
    assert signature is not None
    assert isinstance(node, ast.Call)
    assert (mismatch(signature, node) is None) is fits


@pytest.mark.parametrize(
    ("own", "base", "reasons"),
    [
        ("(a, b)", "(a, b)", []),
        ("(a, b=0, *, c=0)", "(a)", []),
        ("(*args, **kwargs)", "(a, b, *, c)", []),
        ("(a, **kwargs)", "(a, b=0)", []),
        ("(a)", "(a, *, c)", ["it does not take c"]),
        ("(a, b)", "(a, *args)", []),
        ("(a, b)", "(a, b=0)", ["it needs b, which callers may leave out"]),
        ("(x, b)", "(a, b)", ["a is called x here"]),
        ("(x, **kwargs)", "(a)", []),
        ("(a, *, c)", "(a)", ["it also needs c"]),
    ],
)
def test_an_override_fits(own: str, base: str, reasons: list[str]) -> None:
    mine, theirs = of_function(_function(own)), of_function(_function(base))
    assert mine is not None
    assert theirs is not None
    assert [d.reason for d in compare(mine, theirs)] == reasons


def test_no_signature_where_the_text_does_not_settle_it() -> None:
    text = """
        import outside

        class Meta(metaclass=outside.Meta):
            def __init__(self, a): ...

        class New:
            def __new__(cls, a): ...

        class Outside(outside.Base): ...

        @outside.decorate
        class Decorated:
            def __init__(self, a): ...
        """
    tree = Tree.of({"pkg/__init__.py": "", "pkg/m.py": dedent(text)})
    inference = Inference(Program(tree))
    module = inference.program.module("pkg.m")
    assert module is not None
    for node in module.source.tree.body[1:]:
        value = ClassValue(inference.class_info(node, module.scope))
        assert signature_of(inference, value) is None
