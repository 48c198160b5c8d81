"""Patterns match code, not text; every rule of the language has its example."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patcher.pattern import Pattern, PatternError, substitute
from patcher.source import Source, Unreadable


def texts(pattern: str, code: str, scope: str | None = None, **where: str) -> list[str]:
    return [m.text() for m in Pattern(pattern, where).find(Source("m.py", code.encode()), scope)]


@pytest.mark.parametrize(
    ("pattern", "code", "expected"),
    [
        ("f($X)", "f(1); f(1, 2); g(1)", ["f(1)"]),
        ("f($...)", "f(); f(1); f(1, k=2)", ["f()", "f(1)", "f(1, k=2)"]),
        ("f($X, $...R)", "f(); f(1); f(1, 2, k=3)", ["f(1)", "f(1, 2, k=3)"]),
        ("f($...A, 'x', $...B)", 'f("x"); f(1, "x", 2); f(1)', ['f("x")', 'f(1, "x", 2)']),
        ("f(k=$V)", "f(k=1); f(1, k=1); f(j=1)", ["f(k=1)"]),
        ("f($..., k=$V)", "f(k=1); f(1, k=2, j=3); f(j=1)", ["f(k=1)", "f(1, k=2, j=3)"]),
        ("f(k=$V, $...R)", "f(k=1); f(j=3, k=2)", ["f(k=1)", "f(j=3, k=2)"]),
        ("f(b=1, a=2)", "f(a=2, b=1)", ["f(a=2, b=1)"]),
        ("$X + $X", "a + a; a + b; f(1) + f( 1 )", ["a + a", "f(1) + f( 1 )"]),
        ("$A.b", "x.b; x.y.b; b", ["x.b", "x.y.b"]),
        ("self.$NAME", "self.a; other.b", ["self.a"]),
        ("x = $V", "x = 1\ny = 2\nx = f(\n  3)", ["x = 1", "x = f(\n  3)"]),
        ("$X: $T", "a: int\nb: str = 's'\nc = 1", ["a: int", "b: str = 's'"]),
        ("return", "def f():\n  return\n\ndef g():\n  return 1", ["return"]),
        ("[$...A, 2, $...B]", "[1, 2, 3]; [2]; [1]", ["[1, 2, 3]", "[2]"]),
        ("'DFLASH'", "x == \"DFLASH\"; y == b'DFLASH'", ['"DFLASH"']),
        ("1", "a = 1; b = True; c = 1.0", ["1"]),
        ("import $M", "import os\nfrom a import b", ["import os"]),
        ("from a import $...NAMES", "from a import b, c\nfrom d import b", ["from a import b, c"]),
        ("lambda $...: $B", "f = lambda: 1\ng = lambda x: x", ["lambda: 1", "lambda x: x"]),
    ],
)
def test_expressions_and_simple_statements(pattern: str, code: str, expected: list[str]) -> None:
    assert texts(pattern, code) == expected


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("if $T: $...", 2),
        ("if self.is_dflash(): $...BODY", 1),
        ("if $T: return $X", 2),
        ("if $T: $...\nelse: $...", 1),
        ("def $F($...): $...", 3),
        ("def $F(self, $...REST): $...", 2),
        ("def $F(self): $...", 1),
        ("def $F($...A, flag=$D, $...B): $...", 1),
        ("class $C: $...", 1),
        ("class $C(Base): $...", 1),
        ("class $C(Other): $...", 0),
        ("async def $F($...): $...", 0),
    ],
)
def test_what_a_pattern_leaves_out_is_open(pattern: str, count: int) -> None:
    code = """
class C(Base, metaclass=M):
    @property
    def a(self) -> int:
        if self.is_dflash():
            return 1
        elif self.other():
            return 2
        return 3

    def b(self, x: int, flag: bool = True):
        pass

def free(): pass
"""
    # an elif is an if inside the else of another: `if … else …` matches the outer one only
    assert len(texts(pattern, code)) == count


def test_several_statements_match_a_run_of_them() -> None:
    code = "a = 1\nb = 2\nc = 3\nb = 2\n"
    pattern = "$X = $_\nb = $V"
    matches = Pattern(pattern).find(Source("m.py", code.encode()))
    assert [(m.text("X"), len(m.nodes)) for m in matches] == [("a", 2), ("c", 2)]


def test_scope_is_the_nearest_class_or_function() -> None:
    code = "x = 1\nclass A:\n    x = 1\n    def f(self):\n        x = 1\n        if y: x = 1\n"
    assert len(texts("x = 1", code)) == 4
    assert len(texts("x = 1", code, "")) == 1
    assert len(texts("x = 1", code, "A")) == 1
    assert len(texts("x = 1", code, "A.f")) == 2


def test_where_narrows_a_metavariable_by_regular_expression() -> None:
    assert texts("$F($...)", "is_a(); is_b(1); has_c()", F=r"is_\w+") == ["is_a()", "is_b(1)"]


def test_where_must_name_a_metavariable() -> None:
    with pytest.raises(PatternError, match=r"no metavariable \$Y"):
        Pattern("f($X)", {"Y": ".*"})


def test_dollars_in_strings_and_comments_are_not_metavariables() -> None:
    assert texts('cost == "$X"  # $Y', 'cost == "$X"; cost == "3"') == ['cost == "$X"']


@pytest.mark.parametrize("pattern", ["", "f(", "$", "if x", "$ X"])
def test_a_bad_pattern_says_so(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern(pattern).find(Source("m.py", b"x = 1\n"))
    assert caught.value.next_step


def test_layout_comments_and_quotes_do_not_matter() -> None:
    code = "parser.add_argument(\n    # the name\n    '--a',\n    choices=[  'x' ],\n)\n"
    assert len(texts('$P.add_argument("--a", $..., choices=$LIST)', code)) == 1


def test_bindings_give_the_source_text() -> None:
    (match,) = Pattern("f($A, $...REST)").find(Source("m.py", b"f( x.y , 1,  k = 2)\n"))
    assert match.text("A") == "x.y"
    assert match.text("REST") == "1, k = 2"
    assert substitute("g($A, [$REST], $MATCH)", match) == "g(x.y, [1, k = 2], f( x.y , 1,  k = 2))"


def test_a_template_may_only_use_what_is_bound() -> None:
    (match,) = Pattern("f($A)").find(Source("m.py", b"f(1)\n"))
    with pytest.raises(PatternError, match=r"\$B"):
        substitute("g($B)", match)


EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "1", "'s'", "None"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"({p[0]} + {p[1]})"),
        st.lists(inner, max_size=3).map(lambda xs: f"f({', '.join(xs)})"),
        inner.map(lambda x: f"g(k={x})"),
        st.lists(inner, max_size=3).map(lambda xs: f"[{', '.join(xs)}]"),
        inner.map(lambda x: f"{x}.attr" if x[0] in "ab(fg" else x),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, EXPRESSIONS)
def test_two_expressions_match_exactly_when_their_trees_are_equal(left: str, right: str) -> None:
    same = ast.dump(ast.parse(left, mode="eval")) == ast.dump(ast.parse(right, mode="eval"))
    source = Source("m.py", f"x = {right}\n".encode())
    value = source.tree.body[0].value  # type: ignore[attr-defined]
    whole = [m for m in Pattern(left).find(source) if m.node is value]
    assert bool(whole) == same


@given(EXPRESSIONS)
def test_a_metavariable_matches_anything_and_the_pattern_still_holds(code: str) -> None:
    assert len(texts("x = $V", f"x = {code}\n")) == 1


@pytest.mark.parametrize(
    ("pattern", "code", "expected"),
    [
        ("f(*$X)", "f(a); f(*a); f(*a, b)", ["f(*a)"]),
        ("[*$X]", "[a]; [*a]", ["[*a]"]),
        ("f($X, *$Y)", "f(1, 2); f(1, *y)", ["f(1, *y)"]),
        ("f(k=1, $...R)", "f(k=1); f(k=1, **r); f(2, k=1)", ["f(k=1)", "f(k=1, **r)", "f(2, k=1)"]),
        ("f(**$K)", "f(k); f(**k); f(k=1)", ["f(**k)"]),
        ("'DFLASH'", "'DF' 'LASH'; '\\x44FLASH'; 'D'", ["'DF' 'LASH'", "'\\x44FLASH'"]),
        ("file", "ﬁle = 1", ["ﬁle"]),
        ("def f(a, b): $...", "def f(a, /, b): pass\ndef f(a, b): return", ["def f(a, b): return"]),
        ("def f(a, /, b): $...", "def f(a, /, b): pass\ndef f(a, b): 1", ["def f(a, /, b): pass"]),
        ("def f($...P): $...", "def f(a, /, b): pass", ["def f(a, /, b): pass"]),
        ("def f($...P, /, b): $...", "def f(a, b): 1\ndef f(a, /, b): 2", ["def f(a, /, b): 2"]),
        ("def f(*, $...P): $...", "def f(a): 1\ndef f(*, a, **k): 2", ["def f(*, a, **k): 2"]),
        ("class C(x=1, y=2): $...", "class C(y=2, x=1): pass", ["class C(y=2, x=1): pass"]),
        ("class C(x=1): $...", "class C(A, x=1): pass", ["class C(A, x=1): pass"]),
        ("class C(x=1): $...", "class C(y=2, x=1): pass", []),
        (
            "class C(A, x=1): $...",
            "class C(B, x=1): pass\nclass C(A, x=1): 1",
            ["class C(A, x=1): 1"],
        ),
        ("class C($..., x=1): $...", "class C(A, y=2, x=1): pass", ["class C(A, y=2, x=1): pass"]),
        ("$_1 + $_1", "a + a; a + b", ["a + a"]),
        ("$X + $X", "'ctx=Load()' + 'ctx=Store()'; 'a' + 'a'", ["'a' + 'a'"]),
        ("$X + $X", "f(', ctx=Load()') + f('')", []),
        ("$X + $X", "1 + True; 1 + 1.0; 1 + 1", ["1 + 1"]),
    ],
)
def test_what_is_written_is_what_is_meant(pattern: str, code: str, expected: list[str]) -> None:
    assert texts(pattern, code) == expected


@pytest.mark.parametrize(
    ("pattern", "code", "lines"),
    [
        ("a()\na()", "a()\na()\na()", [1]),
        ("a()\na()", "a()\na()\na()\na()", [1, 3]),
        ("$...\nreturn $X", "x\ny\nreturn 1", [1]),
        ("$...\nr()", "x\nr()\ny\nr()\nz", [1, 3]),
        ("a()\n$...\nb()", "a()\na()\nb()\nb()", [1]),
        ("$...A\nx = $V\n$...B\ny = $V", "x = 1\nx = 2\ny = 2\nz", [1]),
    ],
)
def test_runs_do_not_overlap_and_the_first_wins(pattern: str, code: str, lines: list[int]) -> None:
    source = Source("m.py", code.encode())
    assert [m.site.line for m in Pattern(pattern).find(source)] == lines


def test_the_text_of_a_run_is_the_whole_run() -> None:
    (match,) = Pattern("a()\n$...B\nc()").find(Source("m.py", b"a()\nb()\n# n\nb()\nc()\n"))
    assert match.text() == "a()\nb()\n# n\nb()\nc()"
    assert match.text("B") == "b()\n# n\nb()"


@pytest.mark.parametrize(
    "pattern", ["$X$Y", "a$X", "$X.$Y$Z", "$...A$B", "f($X$...Y)", "$1", "$...", "$...A\n$...B"]
)
def test_a_metavariable_is_a_whole_node(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern(pattern).find(Source("m.py", b"x = 1\n"))
    assert caught.value.next_step


@pytest.mark.parametrize("rx", ["(", "a{99999999999}", "*", "(a+)+b", r"(?:\w*)*", "([a-z]+)*"])
def test_a_bad_regular_expression_says_so(rx: str) -> None:
    with pytest.raises(PatternError, match="where") as caught:
        Pattern("f($X)", {"X": rx})
    assert caught.value.next_step


@pytest.mark.parametrize("rx", [r"(?:\w+\.)*x", "(a|b)+", r"[*+]+", "(ab+c)*"])
def test_a_harmless_regular_expression_is_taken(rx: str) -> None:
    Pattern("f($X)", {"X": rx})


def test_a_file_that_can_spell_it_otherwise_is_not_ruled_out() -> None:
    pattern = Pattern("f('DFLASH')")
    assert pattern.literals == (b"DFLASH", b"f")
    assert pattern.names == (b"f",)


@pytest.mark.parametrize("code", ["x = 1\n# \xe9\n".encode("latin-1"), b"\n\nf(1, # \xff\n)\n"])
def test_a_comment_that_is_not_utf_8_makes_a_file_unreadable(code: bytes) -> None:
    with pytest.raises(Unreadable, match="not UTF-8"):
        Pattern("f($X)").find(Source("m.py", code + b"f\n"))
