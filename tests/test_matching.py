"""The guards that spare most nodes a match never spare one that matches."""

from __future__ import annotations

import importlib
import pkgutil
from itertools import chain

import pytest

import inventory
from patcher.pattern import Pattern
from patcher.source import Source

_MODULES = [
    importlib.import_module(f"inventory.{info.name}")
    for info in pkgutil.iter_modules(inventory.__path__)
]
_PATTERNS = [p for m in _MODULES for p in vars(m).values() if isinstance(p, Pattern)]
_PATTERNS += [
    Pattern("self.$NAME = $VALUE", where={"NAME": "s.*"}),
    Pattern("$A, $B = $C"),
    Pattern("$X = 1"),
    Pattern("f($X, *$Y)"),
    Pattern("import $NAME"),
    Pattern("@$D\ndef $NAME($...): $...BODY"),
    Pattern("x: $T = $V"),
    Pattern("class $N($BASE): $...BODY", where={"BASE": "B.*"}),
]
_CODE = [
    *chain.from_iterable(case.files.values() for q in inventory.QUERIES for case in q.cases),
    "self.size = other.size = 1\nself.time = 2\na, b = c\nx = 1\nx: int\nx: int = 2\n",
    "f(1, *y)\nf(*y)\nimport os\nimport os.path as p\n@d\ndef g(a, b=1): pass\n",
    "class A(Base): pass\nclass B(m.Base): pass\nclass C(Other): pass\nclass D: pass\n",
]


@pytest.mark.parametrize("pattern", _PATTERNS, ids=lambda p: p.text)
def test_guards_change_nothing(pattern: Pattern) -> None:
    plain = Pattern(pattern.text, pattern.where)
    object.__setattr__(plain, "_guards", ())
    for number, code in enumerate(_CODE):
        source = Source(f"{number}.py", code.encode())
        assert [m.nodes for m in pattern.find(source)] == [m.nodes for m in plain.find(source)]


def test_guards_do_spare_matches() -> None:
    source = Source("x.py", b"a = 1\nb = 2\nc.d = 3\n")
    pattern = Pattern("$NAME = $VALUE", where={"NAME": "b|c.*"})
    passing = [
        node for node in source.tree.body if all(test(read(node)) for read, test in pattern._guards)
    ]
    assert passing == source.tree.body[1:]
