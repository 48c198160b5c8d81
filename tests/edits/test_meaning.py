"""An edit brings what it says and nothing else, whatever it meets; or it is refused."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patcher.edits import (
    AddElement,
    AddImport,
    AddKeyword,
    AddMember,
    AddMethod,
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
    WidenCondition,
    WrapCall,
)
from patcher.model import UsageError
from patcher.pattern import PatternError
from tests.edits.small import PATH, at, edited, subject

LIST = at("x = $L")
CALL = at("f($...)")
REGION = "conflict: edit.region"


def element(code: str = '"N"') -> AddElement:
    return AddElement(anchor=LIST, to="L", element=code)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('x = [*BASE, "a"]\n', 'x = [*BASE, "a", "N"]\n'),
        ("x = [*BASE]\n", 'x = [*BASE, "N"]\n'),
        ("x = {*a, *b}\n", 'x = {*a, *b, "N"}\n'),
        ("x = (*a,)\n", 'x = (*a, "N",)\n'),
        ("x = ()\n", 'x = ("N",)\n'),
        ('x = (("a"), "b")\n', 'x = (("a"), "b", "N")\n'),
        ("x = ((1, 2), 3)\n", 'x = ((1, 2), 3, "N")\n'),
        ('x = ["a" # c\n]\n', 'x = ["a", # c\n"N"\n]\n'),
        ('x = ["a" # c\n, "b" # b\n , ]\n', 'x = ["a" # c\n, "b" # b\n , "N", ]\n'),
        ('x = [\n    "a",\n    # the end\n]\n', 'x = [\n    "a",\n    "N",\n    # the end\n]\n'),
        ('x = [ # all\n    "a"]\n', 'x = [ # all\n    "a",\n    "N"]\n'),
        (
            "if a:\n    x = [\n  1,\n        ]\n    y = 2\n",
            'if a:\n    x = [\n  1,\n  "N",\n        ]\n    y = 2\n',
        ),
        ('if a:\n    x = ["""\nb"""]\n', 'if a:\n    x = ["""\nb""", "N"]\n'),
    ],
)
def test_an_element_more_is_all_that_changes(before: str, after: str) -> None:
    assert edited(element(), before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a # c\n)\n", "f(a, # c\nk=1\n)\n"),
        ("f(a, # c\n)\n", "f(a, # c\nk=1,\n)\n"),
        ("f(*a, **b)\n", "f(*a, **b, k=1)\n"),
        ("(f)(a)\n", "(f)(a, k=1)\n"),
        ("f(a)(b)\n", "f(a, k=1)(b)\n"),
        ("f(a for a in b)\n", REGION),
    ],
)
def test_a_keyword_more_is_all_that_changes(before: str, after: str) -> None:
    edit = AddKeyword(anchor=at("f($...)"), name="k", value="1")
    assert edited(edit, before) == after


ITEMS = st.sampled_from(["1", "*a", "(b)", "(1,)", "'x'", "f(1, 2)", "[3]", '"""\nm"""'])
GAPS = st.sampled_from(["", " ", "\n", "  # c\n", "\n    # own\n    ", "\n\n"])


@given(st.lists(st.tuples(GAPS, ITEMS, GAPS, st.just(","), GAPS), max_size=4), st.booleans())
def test_no_layout_costs_an_element_or_a_comment(
    parts: list[tuple[str, ...]], trailing: bool
) -> None:
    inner = "".join(map("".join, parts))
    code = f"x = [{inner if trailing else inner.rstrip().removesuffix(',')}]\n"
    try:
        old = ast.parse(code)
    except SyntaxError:
        return
    after = edited(element(), code)
    if after == REGION:
        return
    new = ast.parse(after)
    items = new.body[0].value.elts  # type: ignore[attr-defined]
    assert ast.literal_eval(items.pop()) == "N"
    assert ast.dump(old) == ast.dump(new)
    assert after.count("# c") == code.count("# c")
    assert after.count("# own") == code.count("# own")


@pytest.mark.parametrize(
    ("pattern", "operator", "alternative", "before", "after"),
    [
        ("if $TEST: $...", "or", "x if y else z", "if a", "if a or (x if y else z)"),
        ("if $TEST: $...", "and", "x or y", "if a", "if a and (x or y)"),
        ("if $TEST: $...", "and", "x or y", "if a or b", "if (a or b) and (x or y)"),
        ("if $TEST: $...", "or", "x or y", "if a", "if a or x or y"),
        ("if $TEST: $...", "or", "(x or y)", "if a or b", "if a or b or (x or y)"),
        ("if $TEST: $...", "or", "c", "if (a := b)", "if ((a := b) or c)"),
        ("if $TEST: $...", "or", "c", "if a if b else d", "if (a if b else d) or c"),
        ("if $TEST: $...", "or", "lambda: 1", "if a", "if a or (lambda: 1)"),
        ("if $TEST: $...", "and", "c := 1", "if a", "if a and (c := 1)"),
        ("if not $TEST: $...", "or", "c", "if not a", "if not (a or c)"),
        ("while $TEST == b: $...", "or", "c", "while a == b", "while (a or c) == b"),
    ],
)
def test_a_condition_means_the_old_one_and_the_new(
    pattern: str, operator: str, alternative: str, before: str, after: str
) -> None:
    edit = WidenCondition(anchor=at(pattern), alternative=alternative, operator=operator)  # type: ignore[arg-type]
    assert edited(edit, f"{before}:\n    pass\n") == f"{after}:\n    pass\n"
    assert edit.present(subject(f"{after}:\n    pass\n"))
    assert not edit.present(subject(f"{before}:\n    pass\n"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return a, b", "return (a, b) or c"),
        ("return (yield a)", "return ((yield a) or c)"),
        ("return yield_ or b", "return yield_ or b or c"),
        ("return lambda: b", "return (lambda: b) or c"),
    ],
)
def test_what_is_returned_means_the_old_and_the_new(before: str, after: str) -> None:
    edit = WidenCondition(anchor=at("return $TEST"), alternative="c")
    assert edited(edit, f"def f():\n    {before}\n") == f"def f():\n    {after}\n"


def test_an_alternative_may_use_what_is_bound() -> None:
    edit = WidenCondition(anchor=at("if $TEST == $B: $...", expect=1), alternative="$B")
    assert edited(edit, "if a == b:\n    pass\n") == "if (a or b) == b:\n    pass\n"
    assert edit.present(subject("if (a or b) == b:\n    pass\n"))


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (ReplaceExpression(anchor=at("f($X)"), by="$X * 2"), "y = f(a + b)\n", "y = (a + b) * 2\n"),
        (ReplaceExpression(anchor=at("f($X)"), by="not $X"), "y = f(a) + 1\n", "y = (not a) + 1\n"),
        (ReplaceExpression(anchor=at("f($X)"), by="$X.y"), "y = f(1)\n", "y = (1).y\n"),
        (WrapCall(anchor=at("f($X)"), function="g"), "y = f(1)\n", "y = g(f(1))\n"),
        (
            InsertAfter(anchor=at("f($X)"), code="y = $X * 2"),
            "f(a + b)\n",
            "f(a + b)\ny = (a + b) * 2\n",
        ),
        (
            InsertAfter(anchor=at("f($X)"), code="y = $X"),
            "f(\n  a +\n  b)\n",
            "f(\n  a +\n  b)\ny = (a +\n  b)\n",
        ),
        (InsertAfter(anchor=at("f($...T)"), code="g(1, $...T)"), "f()\n", "f()\ng(1)\n"),
        (InsertAfter(anchor=at("f($...T)"), code="g($...T, 1)"), "f()\n", "f()\ng(1)\n"),
        (InsertAfter(anchor=at("f($...T)"), code="g($...T)"), "f()\n", "f()\ng()\n"),
        (
            InsertAfter(anchor=at("f($...T)"), code="g(z=0, $...T)"),
            "f(a=1)\n",
            "f(a=1)\ng(z=0, a=1)\n",
        ),
        (InsertAfter(anchor=at("f($...T)"), code="x = ($...T, 1)"), "f()\n", REGION),
        (InsertAfter(anchor=at("f($...T)"), code="x = $...T"), "f()\n", REGION),
    ],
)
def test_what_is_bound_keeps_its_meaning(edit: Edit, before: str, after: str) -> None:
    assert edited(edit, before) == after


@pytest.mark.parametrize(
    ("params", "again"),
    [
        ("a, b=2, *c, d: int = 3, **e", "a, b=2, *c, d: int = 3, **e"),
        ("a, /, b", "a, /, b"),
        ("a, /", "a, /"),
        ("*, a=1", "*, a=1"),
        ("a, *, b", "a, *, b"),
        ("", ""),
    ],
)
def test_parameters_are_given_as_source(params: str, again: str) -> None:
    edit = InsertAfter(anchor=at("def f($...P): $..."), code="def g($...P):\n    pass")
    before = f"def f({params}):\n    return 1\n"
    assert edited(edit, before) == f"{before}def g({again}):\n    pass\n"


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (InsertBefore(anchor=at("g(1)"), code="y = 2"), "if a: \\\n g(1)\n"),
        (InsertAfter(anchor=at("g(1)"), code="y = 2"), "x = 0; \\\ng(1)\n"),
        (InsertAfter(anchor=at("x = 1"), code="y = 2"), "if a:\n    pass\nelif x:\n    x = 1; z\n"),
        (
            InsertAfter(anchor=at("if b: $..."), code="y = 2"),
            "if a:\n    pass\nelif b:\n    pass\n",
        ),
    ],
)
def test_no_lines_of_its_own_is_a_conflict(edit: Edit, code: str) -> None:
    assert edited(edit, code) == "conflict: anchor.place"


def test_a_form_feed_is_not_indentation() -> None:
    edit = InsertAfter(anchor=at("x = 1"), code="y = 2")
    before = "if a:\n\f    x = 1\n    z\n"
    assert edited(edit, before) == "if a:\n\f    x = 1\n    y = 2\n    z\n"


@pytest.mark.parametrize(
    "code", ["new(", "if a:", "x = '''", "y = 2 \\", "@a", "x = 1\n  y = 2", ""]
)
def test_code_that_is_not_python_is_said_to_be_so(code: str) -> None:
    for kind in (InsertAfter, InsertBefore):
        with pytest.raises(PatternError, match="template") as caught:
            edited(kind(anchor=at("x = 1"), code=code), "x = 1\nz = 1\n")
        assert caught.value.next_step


@pytest.mark.parametrize("code", ["a b", "a, b", "(", "", "x = 1", "]"])
def test_an_expression_must_be_one(code: str) -> None:
    for edit in (
        ReplaceExpression(anchor=LIST, of="L", by=code),
        WidenCondition(anchor=LIST, test="L", alternative=code),
        AddElement(anchor=LIST, to="L", element=code),
        AddKeyword(anchor=LIST, to="L", name="k", value=code),
    ):
        with pytest.raises(PatternError):
            edited(edit, "x = f([1])\n" if isinstance(edit, AddKeyword) else "x = [1]\n")


@pytest.mark.parametrize("name", ["a b", "a.b", "*", "a, b", "", "1"])
def test_an_imported_name_must_be_one(name: str) -> None:
    with pytest.raises(PatternError):
        edited(AddImport(file=PATH, module="m", name=name), "from m import x\n")


def test_a_starred_element_can_be_added() -> None:
    assert edited(element("*NEW"), "x = [1]\n") == "x = [1, *NEW]\n"


def test_a_place_within_another_is_a_conflict() -> None:
    nested = at("f($X)", expect=2)
    assert edited(WrapCall(anchor=nested, function="g"), "f(f(a))\n") == "conflict: edit.overlap"
    edit = AddElement(anchor=at("g($L)", expect=2), to="L", element="1")
    assert edited(edit, "g([g([])])\n") == "conflict: edit.overlap"


@pytest.mark.parametrize(
    "code",
    ["x\f = [1]\n", "x = ([1] + " + ".".join(["a"] * 900) + ")\n", "if a:\n\f  x = [1]\n"],
    ids=["form-feed", "deep", "indented"],
)
def test_what_libcst_cannot_take_is_a_conflict(code: str) -> None:
    edit = AddElement(anchor=at("[1]"), element="2")
    assert edited(edit, code) in (REGION, code.replace("[1]", "[1, 2]"))


def test_a_chain_of_nine_hundred_attributes_is_an_expression_too() -> None:
    chain = ".".join(["a"] * 900)
    edit = WrapCall(anchor=at("f($X, $X)"), function="g", arguments="$X")
    before = f"y = f({chain}, {chain})\n"
    assert edited(edit, before) in (f"y = g({before[4:-1]}, {chain})\n", REGION)
    assert not edit.present(subject(before))


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (InsertBefore(anchor=at("a()"), code="y = 2"), "a(); b()\n", "y = 2\na(); b()\n"),
        (InsertBefore(anchor=at("b()"), code="y = 2"), "a(); b()\n", "conflict: anchor.place"),
        (InsertAfter(anchor=at("b()"), code="y = 2"), "a(); b();\n", "a(); b();\ny = 2\n"),
        (InsertAfter(anchor=at("a()"), code="y = 2"), "a(); b()\n", "conflict: anchor.place"),
        (AddElement(anchor=at("[1]"), element="2"), "a(); b([1]) # c\n", "a(); b([1, 2]) # c\n"),
        (ReplaceExpression(anchor=at("a"), by="d"), "if 1: b(a); c\n", "if 1: b(d); c\n"),
        (ReplaceExpression(anchor=at("a"), by="d"), "x = f'{a}'\n", None),
        (
            InsertAfter(anchor=at("f($X)", expect=2), code="y"),
            "f(f(a))\n",
            "conflict: edit.overlap",
        ),
    ],
)
def test_statements_that_share_a_line(edit: Edit, before: str, after: str | None) -> None:
    assert edited(edit, before) in ((REGION, "x = f'{d}'\n") if after is None else (after,))


@pytest.mark.parametrize(
    ("edit", "pristine", "applied"),
    [
        (ReplaceExpression(anchor=at("f($X)"), by="g($X)"), "f(a); g(a)\n", "g(a); g(a)\n"),
        (ReplaceExpression(anchor=at("f($X)"), of="X", by="b"), "f(a); b\n", "f(b); b\n"),
        (ReplaceExpression(anchor=at("f($X)"), by="$X"), "f(a); a\n", "a; a\n"),
        (ReplaceExpression(anchor=at("$A < $B"), by="$B > $A"), "a < b\nb > a\n", "b > a\nb > a\n"),
        (ReplaceExpression(anchor=at("f($...A)"), by="f($...A, k=1)"), "f(a)\n", "f(a, k=1)\n"),
        (WrapCall(anchor=at("f($X)"), function="g"), "f(a); g(f)\n", "g(f(a)); g(f)\n"),
        (WrapCall(anchor=at("f($X)"), function="g", of="X"), "f(a); g(a)\n", "f(g(a)); g(a)\n"),
        (InsertAfter(anchor=at("a()"), code="b()"), "b()\na()\nc\nb()\n", "b()\na()\nb()\nc\n"),
        (InsertBefore(anchor=at("a()"), code="b()\nc()"), "c()\na()\nb()\n", "b()\nc()\na()\n"),
        (InsertAfter(anchor=at("f($X)"), code="g($X)"), "f(1)\ng(2)\n", "f(1)\ng(1)\n"),
        (AddElement(anchor=at("f($X, $L)"), to="L", element="$X"), "f(1, [2])\n", "f(1, [2, 1])\n"),
        (AddKeyword(anchor=at("f($X)"), name="k", value="$X"), "f(1)\n", "f(1, k=1)\n"),
        (
            WidenCondition(anchor=at("if $TEST: $..."), alternative="c"),
            "if a and c: 1\n",
            "if a or c: 1\n",
        ),
        (
            AddMethod(file=PATH, cls="C", after="f", code="def g(s): 1"),
            "class C:\n def f(s): 1\n",
            "class C:\n def f(s): 1\n x = 1\n def g(s): 2\n",
        ),
        (
            AddMember(file=PATH, cls="C", after="A", name="B"),
            "class C:\n A = 1\n",
            "class C:\n A = 1\n C = 2\n B = 3\n",
        ),
    ],
)
def test_present_means_that_the_anchored_place_is_so(
    edit: Edit, pristine: str, applied: str
) -> None:
    assert not edited(edit, pristine).startswith("conflict")
    assert not edit.present(subject(pristine))
    if not isinstance(edit, AddKeyword):
        assert edit.present(subject(applied))


def test_a_swap_cannot_be_seen_and_is_not_guessed() -> None:
    edit = ReplaceExpression(anchor=at("$A < $B"), by="$B < $A")
    assert edited(edit, "x = a < b\n") == "x = b < a\n"
    assert not edit.present(subject("x = a < b\n"))


@pytest.mark.parametrize("expect", [0, -1])
def test_an_anchor_expects_a_match(expect: int) -> None:
    with pytest.raises(UsageError) as caught:
        at("x = 1", expect=expect)
    assert caught.value.next_step
