"""Sources keep their bytes, and say where things are in them."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patcher.source import Source, Unreadable

CODE = """\
import os


@cache
def outer(a):
    # über
    x = "naïve"; y = f(x)
    class Inner:
        def method(self):
            return y
"""


def _source(newline: str = "\n", bom: bool = False) -> Source:
    data = CODE.replace("\n", newline).encode()
    return Source("m.py", (b"\xef\xbb\xbf" if bom else b"") + data)


@pytest.mark.parametrize("bom", [False, True])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_node_is_where_its_span_says(newline: str, bom: bool) -> None:
    source = _source(newline, bom)
    nodes = [n for n in ast.walk(source.tree) if isinstance(n, ast.expr | ast.stmt)]
    assert len(nodes) >= 15
    for node in nodes:
        expected = ast.get_source_segment(CODE, node)
        if getattr(node, "decorator_list", None):
            expected = f"@cache\n{expected}"
        assert expected is not None
        assert source.text(node) == expected.replace("\n", newline)


def test_scopes_are_qualified_names() -> None:
    source = _source()
    assert set(source.scopes) == {"outer", "outer.Inner", "outer.Inner.method"}
    returned = next(source.nodes(ast.Return))
    assert source.scope_of(returned) == "outer.Inner.method"


def test_columns_count_characters_not_bytes() -> None:
    source = _source()
    call = next(n for n in source.nodes(ast.Call))
    assert source.site(call).column == len('    x = "naïve"; y = ') + 1


def test_a_decorator_belongs_to_what_it_decorates() -> None:
    source = _source()
    start, _ = source.span(source.scopes["outer"])
    assert source.data[start:].startswith(b"@cache")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"def f(:\n", "line 1"),
        (b"x = '\x00'\n", "null"),
        (b"# -*- coding: latin-1 -*-\nx = 1\n", "iso-8859-1"),
        (b"x = '\xff'\n", "encoding"),
        (b"(" * 5000 + b")" * 5000, ""),
    ],
    ids=["syntax", "nul", "latin-1", "broken-utf-8", "bracket-bomb"],
)
def test_what_python_refuses_is_unreadable_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        _ = Source("m.py", data).tree
    assert reason.lower() in caught.value.reason.lower()
    assert caught.value.reason


@given(st.lists(st.sampled_from(["x = 1", "", "# c", "if y:\n    z = 2", "'é'"]), min_size=1))
def test_line_starts_agree_with_the_bytes(parts: list[str]) -> None:
    data = "\n".join(parts).encode()
    source = Source("m.py", data)
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        assert source.lines(number, number).rstrip(b"\n") == line
        assert source.line_at(source.line_start(number)) == number
