"""Modules by name, scopes, imports: where a name comes from."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from patcher.resolve import imports
from patcher.resolve.bindings import Kind, module_block
from patcher.resolve.program import Program
from patcher.resolve.references import references, touches
from patcher.resolve.values import UNKNOWN, Defined, External, ModuleValue
from patcher.tree import Tree


def program(**files: str) -> Program:
    """A program of files given as ``a__b`` for ``a/b.py``."""
    contents = {f"{name.replace('__', '/')}.py": dedent(text) for name, text in files.items()}
    return Program(Tree.of({"pkg/__init__.py": "", **contents}))


def test_roots_are_the_trees_packages_without_dist_info() -> None:
    tree = Tree.of({"a/b.py": "", "a-1.dist-info/x.py": "", "c/d.txt": "", "e/f.so": b""})
    found = Program(tree)
    assert found.roots == {"a", "e"}
    assert found.owns("a.b.c")
    assert not found.owns("c.d")
    assert not found.owns("ab")


def test_a_name_is_a_module_a_package_a_folder_or_compiled() -> None:
    tree = Tree.of(
        {"a/__init__.py": "", "a/b.py": "", "a/f/g.py": "", "a/fast.cpython-311.so": b""}
    )
    found = Program(tree)
    package, module = found.module("a"), found.module("a.b")
    assert package is not None and package.is_package and package.package == "a"
    assert module is not None and not module.is_package and module.package == "a"
    assert found.module("a.f") is None and found.exists("a.f")
    assert found.is_opaque("a.fast") and found.exists("a.fast")
    assert not found.exists("a.c")
    assert set(found.children("a")) == {"b", "f", "fast"}
    assert imports.member(found, "a.fast", "anything") == (UNKNOWN,)
    assert imports.member(found, "a.f", "g") == (ModuleValue("a.f.g"),)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("from . import x", "pkg.sub"),
        ("from .b import x", "pkg.sub.b"),
        ("from .. import x", "pkg"),
        ("from ..b import x", "pkg.b"),
        ("from pkg.c import x", "pkg.c"),
        ("from ..... import x", ""),
    ],
)
def test_relative_imports_count_from_the_package(statement: str, expected: str) -> None:
    found = program(pkg__sub__mod=statement).module("pkg.sub.mod")
    assert found is not None
    node = found.source.tree.body[0]
    assert isinstance(node, ast.ImportFrom)
    assert found.absolute(node) == expected


def test_relative_imports_of_a_package_count_from_itself() -> None:
    tree = Tree.of({"pkg/sub/__init__.py": "from .b import x\n"})
    found = Program(tree).module("pkg.sub")
    assert found is not None
    node = found.source.tree.body[0]
    assert isinstance(node, ast.ImportFrom)
    assert found.absolute(node) == "pkg.sub.b"


def test_a_chain_of_re_exports_leads_to_the_definition() -> None:
    found = program(
        pkg__a="from pkg.b import first as second\n",
        pkg__b="from .c import *\n",
        pkg__c="from pkg.d import first\n",
        pkg__d="def first(): ...\n",
    )
    reached = imports.member(found, "pkg.a", "second")
    assert reached is not None
    assert isinstance(reached[0], Defined)
    assert reached[0].scope.module.name == "pkg.d"


def test_a_broken_chain_is_missing_at_its_head() -> None:
    found = program(pkg__a="from pkg.b import gone\n", pkg__b="")
    assert imports.member(found, "pkg.a", "gone") is None


def test_a_circle_of_imports_ends() -> None:
    found = program(pkg__a="from pkg.b import x\n", pkg__b="from pkg.a import x\n")
    assert imports.member(found, "pkg.a", "x") is None
    stars = program(pkg__a="from pkg.b import *\n", pkg__b="from pkg.a import *\n")
    assert imports.member(stars, "pkg.a", "x") is None


def test_either_branch_counts() -> None:
    found = program(
        pkg__a="""
            try:
                from elsewhere import fast as pick
            except ImportError:
                from pkg.b import slow as pick
            """,
        pkg__b="def slow(): ...\n",
    )
    reached = imports.member(found, "pkg.a", "pick")
    assert reached is not None
    assert [type(t) for t in reached] == [External, Defined]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a, (b, *c) = x", "abc"),
        ("for a, b in x:\n    c = 1\nelse:\n    d = 1", "abcd"),
        ("with x as a, y as (b, c):\n    pass", "abc"),
        (
            "try:\n    a = 1\nexcept E as b:\n    c = 1\nelse:\n    d = 1\nfinally:\n    e = 1",
            "abcde",
        ),
        ("try:\n    a = 1\nexcept* E as b:\n    c = 1", "abc"),
        ("import a.b, c as d\nfrom e import f as g, h", "adgh"),
        ("def a(b): c = 1\nclass d(e): f = 1", "ad"),
        ("[a for b in (c := [])]\nprint(d := 1)\nlambda q: (r := q)", "cd"),
        ("match x:\n    case {'k': a, **b}: pass\n    case [c, *d] | (c as d): pass", "abcd"),
        ("a: int\nb += 1\nx.y = 1\nx[0] = 2", "ab"),
        ("while (a := f()):\n    b = 1", "ab"),
        ("if x:\n    a = 1\nelif y:\n    b = 1\nelse:\n    c = 1", "abc"),
    ],
)
def test_a_block_binds(text: str, names: str) -> None:
    block = module_block(ast.parse(text).body, walrus=True)
    assert sorted(block.names) == sorted(names)


def test_unpacked_values_keep_their_place() -> None:
    block = module_block(ast.parse("(a, (b, c)), d = f(), 1\ne, f = g()\n").body, walrus=False)
    where = {
        n: (ast.unparse(b[0].value or ast.Name("?")), b[0].path) for n, b in block.names.items()
    }
    assert where == {
        "a": ("f()", (0,)),
        "b": ("f()", (1, 0)),
        "c": ("f()", (1, 1)),
        "d": ("1", ()),
        "e": ("g()", (0,)),
        "f": ("g()", (1,)),
    }
    assert block.names["a"][0].kind is Kind.VALUE


def test_scopes_follow_pythons_rules() -> None:
    text = """
        x = "module"

        class C:
            x = "class"

            def method(self):
                return x

            def other(self):
                x = "local"

                def inner():
                    nonlocal x
                    x = 1
                    return x
                return inner

        def g():
            global x
            x = 2
        """
    module = program(pkg__m=text).module("pkg.m")
    assert module is not None
    tree = module.source.tree
    places: dict[str, int] = {}
    for reference in references(module, [(1, 100)]):
        if isinstance(reference.node, ast.Name) and reference.node.id == "x":
            found = reference.scope.find("x")
            if found and isinstance(reference.node.ctx, ast.Load | ast.Store):
                places[f"{reference.scope.qualified}:{reference.node.lineno}"] = found[1][0].line
    assert isinstance(tree, ast.Module)
    assert places == {
        ":2": 2,
        "C:5": 5,
        "C.method:8": 2,
        "C.other:11": 11,
        "C.other.inner:15": 11,
        "C.other.inner:16": 11,
        "g:21": 2,
    }


def test_a_region_touches_what_shares_a_line_with_it() -> None:
    tree = ast.parse("@deco\ndef f(\n    a,\n):\n    pass\n\nx = 1\n")
    function, assign = tree.body
    assert touches(function, [(1, 1)])
    assert touches(function, [(5, 9)])
    assert not touches(function, [(6, 9)])
    assert touches(assign, [(2, 2), (7, 7)])


def test_an_unreadable_module_may_have_any_name() -> None:
    found = program(pkg__broken="def (:\n")
    assert imports.member(found, "pkg.broken", "x") == (UNKNOWN,)
