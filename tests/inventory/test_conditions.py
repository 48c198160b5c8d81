"""What a condition's text says is what the code tests: it parses, and is true where code runs."""

from __future__ import annotations

import ast
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory._conditions import reached_when
from patcher.source import Source

NAMES = ("a", "b", "c", "x", "y")


def _marked(code: str) -> tuple[Source, ast.stmt]:
    source = Source("x.py", code.encode())
    marks = list(source.nodes(ast.Raise))
    assert isinstance(marks[0], ast.stmt)
    return source, marks[0]


def told(code: str, *, earlier: bool = True) -> str:
    source, mark = _marked(code)
    return reached_when(source, mark, earlier=earlier)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise X", ""),
        ("if a or b: raise X", "a or b"),
        ("if a or b:\n  if c: raise X", "(a or b) and c"),
        ("if a and b:\n  if c: raise X", "a and b and c"),
        ("if (x if a else b):\n  if c: raise X", "(x if a else b) and c"),
        ("if (x := a): raise X", "(x := a)"),
        ("if a: pass\nelse: raise X", "not a"),
        ("if a or b: pass\nelse: raise X", "not (a or b)"),
        ("if not (a or b): pass\nelif c: raise X", "(a or b) and c"),
        ("if x is None: pass\nelse: raise X", "x is not None"),
        ("if (a or b) not in y: pass\nelse: raise X", "(a or b) in y"),
        ("if a < b: pass\nelse: raise X", "not (a < b)"),
        ("if a:\n  if a:\n    if b: raise X", "a and b"),
        ("if a: pass\nelif b: pass\nelif c: raise X", "not a and not b and c"),
        ("if a: pass\nelif b: pass\nelse: raise X", "not a and not b"),
        ("if a: pass\nelse:\n  for i in y:\n    if b: raise X", "not a and b"),
        ("while a:\n  raise X", "a"),
        ("while True:\n  raise X", ""),
        ("def f():\n  if a:\n    def g():\n      if b: raise X", "b"),
        ("if (\n  a  # why\n  or b\n):\n  if c: raise X", "(a or b) and c"),
        ("if x == 'a  b' or (\n  y): raise X", "x == 'a  b' or y"),
        ('if x == """a\n b""": raise X', "x == 'a\\n b'"),
        ('if x == "A": pass\nelif x == "B": raise X', 'x == "B"'),
        ('if x in ("A", "B"): pass\nelif x == "C" and a: raise X', 'x == "C" and a'),
        ('if x == "A" and a: pass\nelif x in ["B"]: raise X', 'x in ["B"]'),
        ('if x == "A": pass\nelif x in ("A", "B"): raise X', 'x != "A" and x in ("A", "B")'),
        ('if x == "A": pass\nelse:\n  if y == "B": raise X', 'x != "A" and y == "B"'),
        ('match x:\n  case "A" | "B": raise X', "x in ('A', 'B')"),
        ('match x:\n  case "A" if a or b: raise X', "x == 'A' and (a or b)"),
        (
            'match x:\n  case "A": pass\n  case None: pass\n  case _: raise X',
            "x != 'A' and x is not None",
        ),
    ],
)
def test_said(code: str, said: str) -> None:
    assert told(code) == said


def test_earlier_branches_can_be_left_out() -> None:
    code = "if a: pass\nelif b or x:\n  if c: raise X"
    assert told(code, earlier=False) == "(b or x) and c"


_TEST = st.recursive(
    st.sampled_from([*NAMES, "x == 1", "x in (1, 2)", "x is None", "x != 1", "a == b"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({' '.join(t)})"),
        inner.map(lambda t: f"(not {t})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
    ),
    max_leaves=4,
)
_VALUES = (None, 0, 1, 2)


def _block(tests: list[str], at: int, inside: str) -> str:
    words = ["if", *["elif"] * (len(tests) - 1)]
    lines = []
    for number, (word, test) in enumerate(zip(words, tests, strict=True)):
        lines += [f"{word} {test}:", f"  {inside if number == at else 'pass'}"]
    return "\n".join([*lines, "else:", f"  {inside if at == len(tests) else 'pass'}"])


@given(st.lists(_TEST, min_size=1, max_size=3), st.lists(_TEST, min_size=1, max_size=2), st.data())
def test_true_exactly_where_the_statement_is_reached(
    outer: list[str], inner: list[str], data: st.DataObject
) -> None:
    within = _block(inner, data.draw(st.integers(0, len(inner))), "raise KeyError")
    code = _block(outer, data.draw(st.integers(0, len(outer))), "MARK")
    code = code.replace("  MARK", within.replace("\n", "\n  ").join(["  ", ""]))
    said = told(code) or "True"
    program, condition = compile(code, "", "exec"), compile(said, "", "eval")
    for values in itertools.islice(itertools.product(_VALUES, repeat=len(NAMES)), 0, None, 7):
        names = dict(zip(NAMES, values, strict=True))
        try:
            exec(program, dict(names))
            reached = False
        except KeyError:
            reached = True
        assert bool(eval(condition, dict(names))) == reached, (code, said, names)
