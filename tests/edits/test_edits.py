"""Each kind of edit on small files: what it writes, and what it refuses."""

import ast
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.model import Coverage, Inventory
from patcher.changes import Conflict, splice
from patcher.edits import (
    AddElement,
    AddField,
    AddImport,
    AddKeyword,
    AddMember,
    AddMethod,
    Anchor,
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
    WidenCondition,
    WrapCall,
)
from patcher.probe import Subject
from patcher.tree import Tree

PATH = "pkg/m.py"


def subject(code: str | bytes) -> Subject:
    tree = Tree.of({PATH: code})
    return Subject(tree, Inventory("", "", Coverage(1, 1, 0), {}))


def edited(edit: Edit, code: str | bytes) -> bytes:
    before = subject(code)
    data = before.tree.read(PATH)
    after = splice(data, edit.plan(before))
    ast.parse(after)
    assert not edit.present(before)
    assert edit.present(Subject(before.tree.with_changes({PATH: after}), before.inventory))
    return after


def at(pattern: str, scope: str | None = None, expect: int = 1) -> Anchor:
    return Anchor(file=PATH, pattern=pattern, scope=scope, expect=expect)


CASES: Sequence[tuple[str, Edit, str, str]] = (
    (
        "after a statement, with a trailing comment",
        InsertAfter(anchor=at("x = 1"), code="y = 2"),
        "if a:\n    x = 1  # one\n    z = 3\n",
        "if a:\n    x = 1  # one\n    y = 2\n    z = 3\n",
    ),
    (
        "after the last statement of a file without a line end",
        InsertAfter(anchor=at("x = 1"), code="y = 2"),
        "z = 0\nx = 1",
        "z = 0\nx = 1\ny = 2\n",
    ),
    (
        "before a statement and the comment above it",
        InsertBefore(anchor=at("if b: $..."), code="if a:\n    return 1", blank_lines=1),
        "def f():\n    x = 0\n\n    # about b\n    if b:\n        return 2\n",
        "def f():\n    x = 0\n\n    if a:\n        return 1\n\n    # about b\n"
        "    if b:\n        return 2\n",
    ),
    (
        "before a decorated function",
        InsertBefore(anchor=at("def f($...): $..."), code="x = 1"),
        "@a\n@b\ndef f():\n    pass\n",
        "x = 1\n@a\n@b\ndef f():\n    pass\n",
    ),
    (
        "with what the anchor bound",
        InsertAfter(anchor=at("$P.add('a', $...)"), code="$P.add('b')"),
        "parser.add(\n    'a',\n    k=1,\n)\n",
        "parser.add(\n    'a',\n    k=1,\n)\nparser.add('b')\n",
    ),
    (
        "a tab-indented file stays one",
        InsertAfter(anchor=at("x = 1"), code="y = 2"),
        "if a:\n\tx = 1\n",
        "if a:\n\tx = 1\n\ty = 2\n",
    ),
    (
        "an enum member",
        AddMember(file=PATH, cls="E", after="A", name="B"),
        "class E(Enum):\n    A = auto()\n\n    def f(self): ...\n",
        "class E(Enum):\n    A = auto()\n    B = auto()\n\n    def f(self): ...\n",
    ),
    (
        "a dataclass field",
        AddField(file=PATH, cls="D", after="a", name="b", annotation="int", default="3"),
        "class D:\n    a: int = 1\n    c: int = 2\n",
        "class D:\n    a: int = 1\n    b: int = 3\n    c: int = 2\n",
    ),
    (
        "a method",
        AddMethod(file=PATH, cls="C", after="f", code="def g(self):\n    return 2"),
        "class C:\n    def f(self):\n        return 1\n\n    x = 1\n",
        "class C:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n\n"
        "    x = 1\n",
    ),
    (
        "an element of a list on one line",
        AddElement(anchor=at("f(choices=$L)"), to="L", element='"c"'),
        'f(choices=["a", "b"])  # kept\n',
        'f(choices=["a", "b", "c"])  # kept\n',
    ),
    (
        "an element of a list over several lines, with comments and a trailing comma",
        AddElement(anchor=at("x = $L"), to="L", element="3"),
        "x = [\n    1,  # one\n    2,\n]\n",
        "x = [\n    1,  # one\n    2,\n    3,\n]\n",
    ),
    (
        "a comment beside the last element stays beside it",
        AddElement(anchor=at("x = $L"), to="L", element="3"),
        "x = [\n    1,\n    # two\n    2  # deux\n]\n",
        "x = [\n    1,\n    # two\n    2,  # deux\n    3\n]\n",
    ),
    (
        "an element of a list over several lines with a single element",
        AddElement(anchor=at("x = $L"), to="L", element="2"),
        "x = [\n    1,  # one\n]\n",
        "x = [\n    1,  # one\n    2,\n]\n",
    ),
    (
        "an element of a tuple in brackets",
        AddElement(anchor=at("a in $T"), to="T", element='"y"'),
        'if a in ("w", "x"):\n    pass\n',
        'if a in ("w", "x", "y"):\n    pass\n',
    ),
    (
        "an element of a tuple without brackets",
        AddElement(anchor=at("x = $T"), to="T", element="3"),
        "x = 1, 2\n",
        "x = 1, 2, 3\n",
    ),
    (
        "an element of an empty list",
        AddElement(anchor=at("x = $L"), to="L", element="1"),
        "x = []\n",
        "x = [1]\n",
    ),
    (
        "an element of a set in an elif",
        AddElement(anchor=at("b in $S"), to="S", element="2"),
        "if a:\n    pass\nelif b in {1}:\n    pass\n",
        "if a:\n    pass\nelif b in {1, 2}:\n    pass\n",
    ),
    (
        "a keyword on one line",
        AddKeyword(anchor=at("f($...)"), name="k", value="1"),
        "y = f(a, *b)\n",
        "y = f(a, *b, k=1)\n",
    ),
    (
        "a keyword of a call over several lines without a trailing comma",
        AddKeyword(anchor=at("f($...)"), name="k", value="1"),
        "f(\n    a,\n    b\n)\n",
        "f(\n    a,\n    b,\n    k=1\n)\n",
    ),
    (
        "a keyword of a call over several lines with a trailing comma and comments",
        AddKeyword(anchor=at("f($...)"), name="k", value="1"),
        "f(\n    a,  # first\n    b,  # second\n)\n",
        "f(\n    a,  # first\n    b,  # second\n    k=1,\n)\n",
    ),
    (
        "a keyword of a call without arguments",
        AddKeyword(anchor=at("f($...)"), name="k", value="1"),
        "f()\n",
        "f(k=1)\n",
    ),
    (
        "a condition widened",
        WidenCondition(anchor=at("if $TEST: $..."), alternative="c()"),
        "if a and b:\n    pass\n",
        "if a and b or c():\n    pass\n",
    ),
    (
        "a condition narrowed keeps its meaning",
        WidenCondition(anchor=at("if $TEST: $..."), alternative="c", operator="and"),
        "if a or b:  # why\n    pass\n",
        "if (a or b) and c:  # why\n    pass\n",
    ),
    (
        "a condition in brackets over several lines",
        WidenCondition(anchor=at("if $TEST: $..."), alternative="c"),
        "if (\n    a\n    or b\n):\n    pass\n",
        "if (\n    a\n    or b or c\n):\n    pass\n",
    ),
    (
        "an expression replaced, in brackets where it must",
        ReplaceExpression(anchor=at("$A == 1"), by="$A + 1", of="A"),
        "x = b * (a == 1)\n",
        "x = b * (a + 1 == 1)\n",
    ),
    (
        "an expression that binds weaker than its surroundings gets brackets",
        ReplaceExpression(anchor=at("f($X)"), by="a or b", of="X"),
        "y = not f(x)\n",
        "y = not f(a or b)\n",
    ),
    (
        "the operand of not",
        ReplaceExpression(anchor=at("not $X"), by="a if b else c", of="X"),
        "y = not x\n",
        "y = not (a if b else c)\n",
    ),
    (
        "a call wrapped",
        WrapCall(anchor=at("f($X)"), function="g", arguments="$X"),
        "y = f(1) + 2\n",
        "y = g(f(1), 1) + 2\n",
    ),
    (
        "a name into an import that is there",
        AddImport(file=PATH, module="a.b", name="d"),
        "import os\nfrom a.b import (\n    c,\n)\n",
        "import os\nfrom a.b import (\n    c,\n    d,\n)\n",
    ),
    (
        "an import after the last one",
        AddImport(file=PATH, module="a", name="b"),
        '"""Doc."""\n\nimport os\nimport sys  # why\n\nx = 1\n',
        '"""Doc."""\n\nimport os\nimport sys  # why\nfrom a import b\n\nx = 1\n',
    ),
    (
        "the first import of a module goes below its docstring",
        AddImport(file=PATH, module="a", name="b"),
        '"""Doc."""\nx = 1\n',
        '"""Doc."""\nfrom a import b\nx = 1\n',
    ),
)


@pytest.mark.parametrize(
    ("edit", "before", "after"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_an_edit_writes_exactly_this(edit: Edit, before: str, after: str) -> None:
    assert edited(edit, before).decode() == after


@pytest.mark.parametrize(
    ("edit", "before", "after"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_crlf_file_with_a_byte_order_mark_stays_one(edit: Edit, before: str, after: str) -> None:
    mark = b"\xef\xbb\xbf"
    windows = mark + before.replace("\n", "\r\n").encode()
    assert edited(edit, windows) == mark + after.replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("edit", "before", "after"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_every_edit_says_what_it_does(edit: Edit, before: str, after: str) -> None:
    assert len(edit.describe()) > 8  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("edit", "code", "finding", "words"),
    [
        (
            InsertAfter(anchor=at("x = 1"), code="y = 2"),
            "x = 2\n",
            "anchor.count",
            "matches 0 time(s)",
        ),
        (
            InsertAfter(anchor=at("x = 1"), code="y = 2"),
            "x = 1\nx = 1\n",
            "anchor.count",
            "lines 1, 2",
        ),
        (
            InsertAfter(anchor=at("x = 1", "C.f"), code="y = 2"),
            "class D:\n    def f(self):\n        x = 1\n",
            "anchor.scope",
            "C.f",
        ),
        (
            InsertBefore(anchor=at("if b: $..."), code="y = 2"),
            "if a:\n    pass\nelif b:\n    pass\n",
            "anchor.place",
            "elif",
        ),
        (InsertAfter(anchor=at("x = 1"), code="y = 2"), "x = 1; z = 3\n", "anchor.place", "shares"),
        (InsertAfter(anchor=at("x = 1"), code="y = 2"), "if a: x = 1\n", "anchor.place", "shares"),
        (
            AddElement(anchor=at("f($L)"), to="L", element="1"),
            "f(x)\n",
            "anchor.kind",
            "a list, tuple or set",
        ),
        (
            AddKeyword(anchor=at("x = $V"), to="V", name="k", value="1"),
            "x = 1\n",
            "anchor.kind",
            "",
        ),
        (
            InsertAfter(anchor=at("x = 1"), code="y = 2"),
            "def f(:\n x = 1\n",
            "anchor.unreadable",
            "",
        ),
    ],
    ids=["none", "two", "scope", "elif", "semicolon", "one-liner", "no-list", "no-call", "syntax"],
)
def test_a_refusal_says_expected_found_and_next_step(
    edit: Edit, code: str, finding: str, words: str
) -> None:
    with pytest.raises(Conflict) as caught:
        edit.plan(subject(code))
    (found,) = caught.value.findings
    assert found.code == finding
    assert words in found.message + found.found + found.expected
    assert found.expected
    assert found.found
    assert found.next_step


def test_an_exact_count_may_be_more_than_one() -> None:
    edit = InsertAfter(anchor=at("x = 1", expect=2), code="y = 2")
    assert edited(edit, "x = 1\nz = 0\nx = 1\n") == b"x = 1\ny = 2\nz = 0\nx = 1\ny = 2\n"


def test_a_lost_anchor_names_the_nearest_code_with_a_score() -> None:
    edit = InsertAfter(anchor=at("if self.is_dflash(): $...BODY"), code="y = 2")
    code = "class A:\n    def f(self):\n        if self.is_dflash_v2():\n            pass\n"
    with pytest.raises(Conflict) as caught:
        edit.plan(subject(code))
    nearest = caught.value.findings[0].nearest[0]
    assert nearest.site.line == 3
    assert nearest.site.scope == "A.f"
    assert 0.8 < nearest.score < 1
    assert "is_dflash_v2" in nearest.text


def test_a_scope_that_moved_is_found_in_its_new_file() -> None:
    edit = InsertAfter(anchor=Anchor(file="pkg/old.py", scope="C.f", pattern="x = 1"), code="y = 2")
    tree = Tree.of({PATH: "class C:\n    def f(self):\n        x = 1\n"})
    with pytest.raises(Conflict) as caught:
        edit.plan(Subject(tree, Inventory("", "", Coverage(1, 1, 0), {})))
    (found,) = caught.value.findings
    assert found.code == "anchor.file"
    assert (found.nearest[0].site.path, found.nearest[0].score) == (PATH, 1.0)
    assert PATH in found.next_step


NAMES = st.sampled_from(["a", "b", "c"])
LINES = st.one_of(
    NAMES.map(lambda n: f"{n} = {n}"),
    NAMES.map(lambda n: f"{n} = [{n}, 1]  # note"),
    st.just("# a comment"),
    st.just(""),
    st.just("if a:\n    b = 1\nelif b:\n    c = 2"),
    st.just("def f(x):\n    '''Doc.\n\n    more'''\n    return x"),
)


@given(st.lists(LINES, max_size=8), st.lists(LINES, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_taking_an_edit_out_again_gives_the_file_back(
    head: list[str], tail: list[str], newline: str
) -> None:
    code = "\n".join([*head, "anchor = f(here)", *tail]).replace("\n", newline).encode()
    for edit in (
        InsertAfter(anchor=at("anchor = f(here)", ""), code="new = 1"),
        InsertBefore(anchor=at("anchor = f(here)", ""), code="new = 1"),
        AddKeyword(anchor=at("f(here)"), name="k", value="1"),
        ReplaceExpression(anchor=at("f(here)"), by="$MATCH or new"),
        WrapCall(anchor=at("f(here)"), function="new"),
    ):
        splices = edit.plan(subject(code))
        after = splice(code, splices)
        ast.parse(after)
        back = b""
        at_byte = shift = 0
        for one in splices:
            start = one.start + shift
            back += after[at_byte:start] + code[one.start : one.end]
            at_byte = start + len(one.data)
            shift += len(one.data) - (one.end - one.start)
        assert back + after[at_byte:] == code
