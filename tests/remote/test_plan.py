"""The order of a push, proved for each prefix."""

from __future__ import annotations

import ast
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patcher.model import DdpatchError, ExitCode, Refusal, UsageError
from patcher.push.plan import Change, build_plan, check_order, order
from patcher.targets.agent.names import Resolver, bound, uses


def paths(changes: list[Change], dispatch: set[str] | None = None) -> list[str]:
    return [change.path for change in order(changes, dispatch or set())]


def module(name: str, old: str | None, new: str | None) -> Change:
    before, after = (None if text is None else text.encode() for text in (old, new))
    return Change(f"sglang/{name}.py", before, after)


def test_a_new_module_waits_for_the_name_that_it_needs() -> None:
    changes = [
        module("worker", None, "from sglang.info import TREE\n"),
        module("info", "X = 1\n", "X = 1\nTREE = 2\n"),
        module("other", None, "from .info import X\n"),
        module("args", "from sglang.info import X\n", "from sglang.worker import TREE\n"),
    ]
    assert paths(changes, {"sglang/args.py"}) == [
        f"sglang/{name}.py" for name in ("other", "info", "worker", "args")
    ]


def test_a_name_goes_away_after_its_last_user() -> None:
    changes = [
        module("a", "X = 1\n", "Y = 1\n"),
        module("b", "from sglang.a import X\n", None),
        module("c", "from sglang.a import X\n", "\n"),
    ]
    assert paths(changes)[-1] == "sglang/a.py"
    assert not check_order(order(changes, set()))


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    from sglang.b import NEW\n",
        "try:\n    from sglang.b import NEW\nexcept ImportError:\n    NEW = None\n",
        "if TYPE_CHECKING:\n    from sglang.b import NEW\n",
    ],
)
def test_what_does_not_run_at_import_does_not_order(text: str) -> None:
    changes = [module("a", "\n", text), module("b", "\n", "NEW = 1\n")]
    assert paths(changes) == ["sglang/a.py", "sglang/b.py"]
    assert not check_order(changes)


def test_a_circle_of_new_names_is_refused() -> None:
    changes = [
        module("a", "P = 1\n", "from sglang.b import Q\nP = 1\nR = 2\n"),
        module("b", "S = 1\n", "from sglang.a import R\nQ = 1\n"),
    ]
    with pytest.raises(Refusal, match="no order") as caught:
        build_plan(changes, set_name="x", set_version="1")
    assert caught.value.findings[0].code == "push.order"
    assert caught.value.next_step


def test_the_proof_does_not_trust_the_sorting() -> None:
    new = module("new", None, "A = 1\n")
    user = module("user", "\n", "from sglang.new import A\n")
    assert not check_order([new, user])
    (finding,) = check_order([user, new])
    assert finding.site is not None and finding.site.path == "sglang/user.py"


@settings(deadline=None)
@given(st.integers(2, 5), st.integers(0, 2**32))
def test_an_order_is_found_whenever_there_is_one(size: int, seed: int) -> None:
    rng = random.Random(seed)
    changes = []
    for number in range(size):
        wants = [n for n in range(size) if n != number and rng.random() < 0.25]
        text = "".join(f"from sglang.m{n} import N{n}\n" for n in wants) + f"N{number} = 1\n"
        changes.append(module(f"m{number}", rng.choice([None, "OLD = 1\n"]), text))
    possible = any(not check_order(list(p)) for p in itertools.permutations(changes))
    assert possible == (not check_order(order(changes, set())))


def test_a_plan_says_what_is_wrong_with_its_input() -> None:
    for path in ("../x.py", "sglang/../x.py", "other/x.py", "/sglang/x.py"):
        with pytest.raises(UsageError):
            build_plan([Change(path, None, b"")], set_name="x", set_version="1")
    twice = [Change("sglang/a.py", None, b""), Change("sglang/a.py", None, b"1")]
    with pytest.raises(UsageError, match="twice"):
        build_plan(twice, set_name="x", set_version="1")
    with pytest.raises(DdpatchError) as caught:
        build_plan([module("a", None, "def (")], set_name="x", set_version="1")
    assert caught.value.exit_code is ExitCode.FINDING


def test_unchanged_files_stay_out() -> None:
    plan = build_plan([module("a", "1\n", "1\n")], set_name="x", set_version="1", record=b"")
    assert plan.changes == ()


def resolver(**files: str) -> Resolver:
    tree = {f"sglang/{name.replace('__', '/')}.py": text.encode() for name, text in files.items()}
    tree["sglang/__init__.py"] = b""

    def listing(path: str) -> list[str] | None:
        inner = [p[len(path) + 1 :].partition("/")[0] for p in tree if p.startswith(f"{path}/")]
        return inner or None

    return Resolver(tree.get, listing)


@pytest.mark.parametrize(
    "text",
    [
        "X = 1",
        "X: int = 1",
        "def X(): ...",
        "class X: ...",
        "async def X(): ...",
        "import X",
        "import a.b as X",
        "from a import b as X",
        "from a import *",
        "if a:\n    X = 1",
        "try:\n    X = 1\nexcept E:\n    pass",
        "try:\n    pass\nexcept E as X:\n    pass",
        "with a as X:\n    pass",
        "for X in a:\n    pass",
        "(X := 1)",
        "a, (b, *X) = c",
        "def f():\n    global X\n    X = 1",
        "def __getattr__(name): ...",
        "globals()['X'] = 1",
        "match a:\n    case [*X]:\n        pass",
        "match a:\n    case {'k': X}:\n        pass",
        "def (",
    ],
)
def test_names_that_are_or_may_be_there(text: str) -> None:
    assert resolver(m=text).missing("sglang.m", "X") == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "X: int",
        "def f():\n    X = 1",
        "class A:\n    X = 1",
        "x = 1",
        "lambda X: X",
        "print(X)",
    ],
)
def test_names_that_are_not_there(text: str) -> None:
    assert resolver(m=text).missing("sglang.m", "X") == "sglang.m has no X"


def test_modules() -> None:
    found = resolver(m="", pkg__inner="")
    assert found.missing("sglang.pkg", "inner") == ""
    assert found.missing("sglang.pkg.inner", "") == ""
    assert found.missing("sglang.gone", "x") == "there is no module sglang.gone"
    assert found.missing("sglang.pkg", "__name__") == ""
    library = Resolver(lambda _: None, {"sglang": ["fast.abi3.so"]}.get)
    assert library.missing("sglang.fast", "anything") == ""


def test_relative_imports() -> None:
    text = (
        b"from . import a\nfrom .b import c\nfrom ..d import e\nimport sglang.f.g as h\nimport os\n"
    )
    found = [(u.module, u.name) for u in uses("sglang/x/y.py", ast.parse(text))]
    assert found == [("sglang.x", "a"), ("sglang.x.b", "c"), ("sglang.d", "e"), ("sglang.f.g", "")]
    package = [
        (u.module, u.name) for u in uses("sglang/x/__init__.py", ast.parse("from . import a"))
    ]
    assert package == [("sglang.x", "a")]


def test_a_type_alone_binds_nothing() -> None:
    assert bound(ast.parse("X: int\nY: int = 1")).names == {"int", "Y"} - {"int"}
