"""The guards that spare most nodes a match never spare one that matches."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

import inventory
from patcher.matching import Matcher, same
from patcher.pattern import Pattern, PatternError
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
    Pattern("f(1, $...REST)"),
    Pattern("f($X, $...REST)"),
    Pattern("f(*$X, $...REST)"),
    Pattern("class $N(Base, $...): $...BODY"),
    Pattern("f($X, k=1, $...REST)"),
    Pattern("@$D\ndef $NAME($...): $...BODY"),
    Pattern("x: $T = $V"),
    Pattern("class $N($BASE): $...BODY", where={"BASE": "B.*"}),
]
_CODE = [
    *chain.from_iterable(case.files.values() for q in inventory.QUERIES for case in q.cases),
    "self.size = other.size = 1\nself.time = 2\na, b = c\nx = 1\nx: int\nx: int = 2\n",
    "f()\nf(k=1)\nf(2, k=1, j=2)\n",
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


_ARGS = ", ".join(f"a{i}" for i in range(200))
_LINES = "".join(f"s{i}()\n" for i in range(120))


@pytest.mark.parametrize(
    ("pattern", "code", "found"),
    [
        ("f($..., x, $..., y, $..., z, $...)", f"f({_ARGS})\n", 0),
        ("f($...A, x, $...B, y, $...C, z, $...D)", f"f({_ARGS}, x, y)\n", 0),
        ("f($...A, a1, $...B, a100, $...C, a199, $...D)", f"f({_ARGS})\n", 1),
        ("f($..., $_, $..., $_, $..., $_, $..., nothing)", f"f({_ARGS})\n", 0),
        ("s1()\n$...A\nx()\n$...B\ny()", _LINES, 0),
        ("$...A\ns5()\n$...B\ns50()\n$...C\ns119()", _LINES, 1),
        ("f(a=$A, b=$B, c=$C, d=$D, e=$E, g=1)", "f(a=1, b=2, c=3, d=4, e=5, g=2)\n", 0),
        ("f(k19=$A, k0=$B, k7=3)", f"f({', '.join(f'k{i}={i}' for i in range(20))}, *a)\n", 0),
    ],
)
def test_long_sequences_take_few_steps(pattern: str, code: str, found: int) -> None:
    from patcher import pattern as module

    made: list[Matcher] = []

    class Counted(Matcher):
        def __init__(self) -> None:
            super().__init__(200_000)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Matcher", Counted)
        code += "# no word is missing: x y z nothing\n"
        assert len(Pattern(pattern).find(Source("x.py", code.encode()))) == found
    assert made[0].steps < 200_000


def test_too_many_ways_is_an_error_that_says_so() -> None:
    keywords = ", ".join(f"k{i}={i}" for i in range(12))
    wanted = ", ".join(f"$K{i}=$V{i}" for i in range(11))
    source = Source("x.py", f"f({keywords})\n".encode())
    with pytest.raises(PatternError, match="too many ways") as caught:
        Pattern(f"f({wanted}, $L=99)").find(source)
    assert caught.value.next_step


def test_sequences_of_nothing_but_many_are_counted_too() -> None:
    pattern = Pattern("f($...A, $...B, $...C, $...D, $...E)", {"E": "nothing"})
    with pytest.raises(PatternError, match="too many ways"):
        pattern.find(Source("x.py", f"f({_ARGS})\n".encode()))


def test_a_pattern_that_is_nested_too_deeply_says_so() -> None:
    chain = ".".join(["a"] * 900)
    with pytest.raises(PatternError) as caught:
        Pattern(f"{chain}.$X").find(Source("x.py", f"{chain}.b\n".encode()))
    assert caught.value.next_step


_NAMES = ["a", "b", "c"]


@given(
    st.lists(st.sampled_from([*_NAMES, "$...", "$...X", "$...Y", "$Z"]), min_size=1, max_size=7),
    st.lists(st.sampled_from(_NAMES), max_size=7),
)
def test_what_is_remembered_changes_no_answer(wanted: list[str], given_: list[str]) -> None:
    def matches(i: int, j: int, bound: dict[str, list[str]]) -> bool:
        if i == len(wanted):
            return j == len(given_)
        item = wanted[i]
        if not item.startswith("$"):
            return j < len(given_) and item == given_[j] and matches(i + 1, j + 1, bound)
        ends = [j + 1] if item == "$Z" else range(j, len(given_) + 1)
        for end in ends:
            taken = given_[j:end]
            if end > len(given_) or (item != "$..." and bound.get(item, taken) != taken):
                continue
            if matches(i + 1, end, bound if item == "$..." else {**bound, item: taken}):
                return True
        return False

    source = Source("x.py", f"f([{', '.join(given_)}])\n".encode())
    found = Pattern(f"f([{', '.join(wanted)}])").find(source)
    assert bool(found) == matches(0, 0, {})


_TEXT = st.sampled_from(
    ["f(a, 'x')", "g[1:2]", "lambda x, *y: -x", "[i for i in j if k]", "f'{a!r}'"]
)


@given(_TEXT, _TEXT)
def test_same_is_what_dumps_say(left: str, right: str) -> None:
    one, other = ast.parse(left), ast.parse(f"\n\n ({right})".strip())
    assert same(one, other) == (ast.dump(one) == ast.dump(other))
