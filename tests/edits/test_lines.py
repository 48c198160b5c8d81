"""New lines stand where they were meant to, and the lines around them stay as they were."""

import pytest

from patcher.changes import Conflict
from patcher.edits import AddFile, AddImport, AddMethod, Edit, InsertAfter, InsertBefore
from patcher.edits.file import Choice, Variable
from patcher.model import UsageError
from patcher.probe import Shows
from tests.edits.small import PATH, at, edited, subject

BEFORE = InsertBefore(anchor=at("if a: $..."), code="y = 2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'x = """\n# not a comment"""\nif a: pass\n',
            'x = """\n# not a comment"""\ny = 2\nif a: pass\n',
        ),
        (
            'x = f("""\n# no""", b)\n# yes\nif a: pass\n',
            'x = f("""\n# no""", b)\ny = 2\n# yes\nif a: pass\n',
        ),
        (
            'def f(b="""\n    # no"""):\n    if a: pass\n',
            'def f(b="""\n    # no"""):\n    y = 2\n    if a: pass\n',
        ),
        (
            'if """\n    # no""":\n    if a: pass\n',
            'if """\n    # no""":\n    y = 2\n    if a: pass\n',
        ),
        (
            "try:\n    b\nexcept E:\n    # c\n    if a: pass\n",
            "try:\n    b\nexcept E:\n    y = 2\n    # c\n    if a: pass\n",
        ),
        (
            "if b:\n    c\nelse:\n    # d\n    if a: pass\n",
            "if b:\n    c\nelse:\n    y = 2\n    # d\n    if a: pass\n",
        ),
        (
            "match b:\n    case 1:\n        # c\n        if a: pass\n",
            "match b:\n    case 1:\n        y = 2\n        # c\n        if a: pass\n",
        ),
        ("# one\n\n# two\nif a: pass\n", "# one\n\ny = 2\n# two\nif a: pass\n"),
    ],
)
def test_only_comments_are_comments(before: str, after: str) -> None:
    assert edited(BEFORE, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "def f():\n    return 1\n    # of f\nx = 1\n",
            "def f():\n    return 1\n    # of f\ny = 2\nx = 1\n",
        ),
        (
            "def f():\n    return 1\n\n    # of f\n\nx = 1\n",
            "def f():\n    return 1\n\n    # of f\ny = 2\n\nx = 1\n",
        ),
        (
            "def f():\n    return 1\n# of x\nx = 1\n",
            "def f():\n    return 1\ny = 2\n# of x\nx = 1\n",
        ),
        ("def f():\n    return 1\n    # of f", "def f():\n    return 1\n    # of f\ny = 2\n"),
        (
            "class C:\n    def f():\n        return 1\n    # of C\n    x = 1\n",
            "class C:\n    def f():\n        return 1\n    y = 2\n    # of C\n    x = 1\n",
        ),
    ],
)
def test_a_function_keeps_the_comments_at_its_end(before: str, after: str) -> None:
    assert edited(InsertAfter(anchor=at("def f(): $..."), code="y = 2"), before) == after


TEXT = "x = '''a\n\n  \n   b'''"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_strings_are_inserted_as_they_are(newline: str) -> None:
    edit = InsertAfter(anchor=at("z"), code=f"if a:\n    {TEXT}\n\n    y = 2")
    before = "if b:\n    z\n".replace("\n", newline)
    wanted = "    if a:\n        x = '''a\n\n  \n   b'''\n\n        y = 2\n".replace("\n", newline)
    assert edited(edit, before) == before + wanted


def test_a_template_loses_its_margin_in_strings_too() -> None:
    code = "\n        x = '''a\n          b\n        '''\n        y = 2\n    "
    edit = InsertAfter(anchor=at("z"), code=code)
    assert edited(edit, "if b:\n    z\n") == "if b:\n    z\n    x = '''a\n  b\n'''\n    y = 2\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("value", ["'''a\n \n  b'''", "f(\n        1,\n    2)", "[\n1]"])
def test_what_is_bound_is_inserted_byte_for_byte(value: str, newline: str) -> None:
    before = f"if b:\n    x = {value}\n".replace("\n", newline)
    value = value.replace("\n", newline)
    edit = InsertAfter(anchor=at("x = $V"), code="y = $V")
    assert edited(edit, before) == f"{before}    y = {value}{newline}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "#!/usr/bin/python\n# coding: utf-8\nx = 1\n",
            "#!/usr/bin/python\n# coding: utf-8\nfrom m import n\nx = 1\n",
        ),
        ("# Licence\n# more\n\nx = 1\n", "# Licence\n# more\nfrom m import n\n\nx = 1\n"),
        ("# Licence\n\n# about x\nx = 1\n", "# Licence\nfrom m import n\n\n# about x\nx = 1\n"),
        ("x = 1\n", "from m import n\nx = 1\n"),
        ("", "from m import n\n"),
        ("# only\n", "# only\nfrom m import n\n"),
        ("# only", "# only\nfrom m import n\n"),
        ("f()\n", "from m import n\nf()\n"),
        ('"""D."""; x = 1\n', "conflict: anchor.place"),
        ("from m import a; x = 1\n", "from m import a, n; x = 1\n"),
        ("if 1: from m import a\nimport b; x\n", "conflict: anchor.place"),
        ("from m import (a # c\n)\n", "from m import (a, # c\nn\n)\n"),
        ("from m import a, \\\n    b\n", "from m import a, \\\n    b, \\\n    n\n"),
        ("def f(:\n", "conflict: anchor.unreadable"),
        ("import a\nif 1:\n", "conflict: anchor.unreadable"),
    ],
)
def test_where_an_import_goes(before: str, after: str) -> None:
    edit = AddImport(file=PATH, module="m", name="n")
    assert edited(edit, before) == after
    if not after.startswith("conflict"):
        assert edit.present(subject(after))
    assert not edit.present(subject(before))


def test_an_import_may_have_another_name() -> None:
    edit = AddImport(file=PATH, module="m", name="n as o")
    assert edited(edit, "from m import n\n") == "from m import n, n as o\n"
    assert not edit.present(subject("from m import n\n"))
    assert edit.present(subject("from m import n as o\n"))


def test_a_comment_with_broken_utf_8_makes_a_file_unreadable() -> None:
    code = b"x = [1, # \xff\n]\nif a: pass\n"
    assert edited(BEFORE, code) == "conflict: anchor.unreadable"


def test_a_method_goes_below_what_belongs_to_the_one_before() -> None:
    edit = AddMethod(file=PATH, cls="C", after="f", code="def g(self):\n    return 2")
    before = "class C:\n    def f(self):\n        return 1\n        # of f\n"
    assert edited(edit, before) == before + "\n    def g(self):\n        return 2\n"


def added(text: str, tmp_path, **more):  # type: ignore[no-untyped-def]
    (tmp_path / "t.j2").write_text(text)
    edit = AddFile(path="new.py", template="t.j2", folder=tmp_path, **more)
    return edit.plan(subject("x = 1\n"))


def test_an_added_module_must_be_python(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Conflict) as caught:
        added("x = (\n", tmp_path)
    assert caught.value.findings[0].code == "file.syntax"


@pytest.mark.parametrize("text", ["{{ nothing }}", "{% if %}", "{% include 'gone' %}"])
def test_a_bad_template_is_a_usage_error(text: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as caught:
        added(text, tmp_path)
    assert caught.value.next_step


def test_a_variable_that_asks_an_unreadable_file_is_a_conflict() -> None:
    variable = Variable("v", "what", (Choice(1, Shows(PATH, "x = 1")),))
    with pytest.raises(Conflict) as caught:
        variable.resolve(subject("def x(:\n"))
    assert caught.value.findings[0].code == "anchor.unreadable"


@pytest.mark.parametrize("edit", [BEFORE, InsertAfter(anchor=at("x = $V"), code="y = $V")])
def test_an_unreadable_file_has_nothing_yet(edit: Edit) -> None:
    assert not edit.present(subject("def x(:\n"))
