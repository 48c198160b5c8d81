"""Level ``names``: what it accepts, what it must reject, and how it speaks about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent

import pytest

from patcher.model import Severity
from patcher.resolve.naming import examine_names
from patcher.tree import Tree
from patcher.verify.names import CHECK
from tests.verify.small import NEW, WHOLE, messages, names, tree_of

LIBRARY = {
    "base.py": """
        from abc import ABC, abstractmethod
        from dataclasses import dataclass
        from enum import Enum, auto
        from typing import List, NamedTuple, Optional, Protocol
        import torch

        LIMIT, (LOW, HIGH) = 1, (2, 3)
        if torch.cuda.is_available():
            def fast(x): return x
        else:
            fast = None
        try:
            import other as backend
        except ImportError:
            backend = None
        for name in ("a", "b"):
            pass
        with open("x") as handle:
            pass
        if (size := 3) > 2:
            pass

        class Algorithm(Enum):
            DFLASH = auto()
            EAGLE = auto()

            def is_dflash(self) -> bool:
                return self is Algorithm.DFLASH

        @dataclass
        class Request:
            rid: str
            length: int = 0

        class Pair(NamedTuple):
            left: int
            right: int

        class Base(ABC):
            shared = 1

            def __init__(self, size: int):
                self.size = size
                self.first, self.second = size, size

            @property
            def double(self) -> int:
                return self.size * 2

            @classmethod
            def make(cls) -> "Base":
                return cls(1)

            @abstractmethod
            def run(self): ...

        class Batch(Base):
            reqs: List[Request]
            last: Optional[Request] = None

            def run(self):
                self.late = 1

        class Sub(Batch):
            def run(self):
                self.only_here = 1

        class Open:
            def __getattr__(self, name):
                return name

        class Filled:
            def __init__(self, **values):
                for key, value in values.items():
                    setattr(self, key, value)

        class Named:
            def __init__(self):
                setattr(self, "set_once", 1)
                object.__setattr__(self, "frozen_field", 1)

            def each(self):
                for item in ["temperatures", "top_ps"]:
                    setattr(self, item, 1)

        class Module(torch.nn.Module):
            pass

        class Shape(Protocol):
            width: int

        class Sealed:
            ok = 1
        """,
    "pkg/__init__.py": "from sglang.base import Batch as Exported\nfrom .inner import *\n",
    "pkg/inner.py": "__all__ = ['shown']\nshown = 1\n_private = 2\nhidden = 3\n",
    "pkg/plain.py": "def first(): ...\ndef _second(): ...\n",
    "stars.py": "from sglang.pkg.plain import *\n",
    "lazy.py": """
        _TABLE = {"heavy": "sglang.base"}

        def __getattr__(name):
            return _TABLE[name]
        """,
    "globals.py": "def set_it():\n    global made_later\n    made_later = 1\n",
    "dynamic.py": "globals().update({'surprise': 1})\n",
    "kernels.py": """
        def use():
            import sgl_kernel
            from sgl_kernel.speculative import sample

            sgl_kernel.fuse(sample)
        """,
    "setter.py": """
        from sglang.base import Sealed

        def mark(it: Sealed):
            it.mark = 1
        """,
    "closed/module.py": "x = 1\n",
}

GOOD = {
    "module": "import sglang.pkg.inner\nsglang.pkg.inner.shown\n",
    "module under a name": "import sglang.pkg.inner as i\ni.hidden\n",
    "names of all kinds": """
        from sglang.base import LIMIT, LOW, HIGH, fast, name, handle, size, backend
        """,
    "re-export": "from sglang.pkg import Exported\nExported.make()\n",
    "star with __all__": "from sglang.pkg import shown",
    "star without __all__": "from sglang.stars import first",
    "submodule": "from sglang.pkg import inner",
    "folder without init": "from sglang.closed import module",
    "relative": "from . import base\nfrom .pkg import inner\nfrom .base import Batch\n",
    "in a function": "def f():\n    from sglang.base import Batch\n    return Batch\n",
    "lazy": "from sglang.lazy import heavy",
    "global in a function": "from sglang.globals import made_later",
    "dynamic globals": "from sglang.dynamic import surprise",
    "guarded": "try:\n    from sglang.base import nope\nexcept ImportError:\n    nope = None\n",
    "outside the tree": "import torch\nfrom numpy import whatever\ntorch.made_up\n",
    "enum": """
        from sglang.base import Algorithm

        Algorithm.DFLASH.is_dflash()
        Algorithm.EAGLE.name
        """,
    "data class": "from sglang.base import Request\nRequest('a').length\nRequest.length\n",
    "named tuple": "from sglang.base import Pair\nPair(1, 2)._replace(left=2).left\n",
    "inherited": """
        from sglang.base import Batch

        def f(batch: Batch):
            return batch.size, batch.second, batch.double, batch.shared, batch.late, batch.run()
        """,
    "of a subclass": """
        from sglang.base import Batch

        def f(batch: Batch):
            return batch.only_here
        """,
    "set from outside": "from sglang.base import Sealed\nSealed().mark\n",
    "asked for": """
        from sglang.base import Sealed

        def f(it: Sealed):
            return it.extra if hasattr(it, "extra") else getattr(it, "ok")

        def g(it: Sealed):
            return it.other if getattr(it, "other", None) else None
        """,
    "of a checked class": """
        from sglang.base import Sealed, Request

        def f(it: Sealed):
            return it.rid if isinstance(it, Request) else None
        """,
    "set by name": """
        from sglang.base import Named

        it = Named()
        it.set_once, it.frozen_field, it.temperatures, it.top_ps
        """,
    "open classes": """
        from sglang.base import Open, Filled, Module, Shape

        def f(a: Open, b: Filled, c: Module, d: Shape):
            return a.x, b.x, c.x, d.height
        """,
    "loops": """
        from sglang.base import Batch

        def f(batch: Batch):
            for i, req in enumerate(batch.reqs):
                req.rid
            for req, n in zip(batch.reqs, [1]):
                req.length
            return [r.rid for r in batch.reqs], batch.last.rid
        """,
    "passed on": """
        from sglang.base import Batch

        class New:
            def __init__(self, target: Batch):
                self.target = target

            def __getattr__(self, name):
                # everything else is the target's
                return getattr(self.target, name)

            def go(self):
                return self.reqs, self.double, self.only_here
        """,
    "made up by __getattr__": """
        class New:
            def __getattr__(self, name):
                if name.startswith("x"):
                    return 1
                raise AttributeError(name)

            def go(self):
                return self.xyz
        """,
    "own class": """
        class New:
            def __init__(self):
                self.a = 1
                with open("x") as self.handle:
                    pass

            def go(self):
                return self.a, self.handle, self.go, self.__class__, type(self).go
        """,
    "mixin of a new class": """
        class HelperMixin:
            def go(self):
                return self.a

        class New(HelperMixin):
            def __init__(self):
                self.a = 1
        """,
    "scopes": """
        from __future__ import annotations
        import os as operating

        total: Later = 0

        class Later:
            size = 3
            sizes = [size for _ in range(size)]

            def go(self, *args, key=lambda q: q, **kw):
                global counter
                counter = 1
                def inner():
                    nonlocal args
                    args = 1
                    return args, kw, key, __class__, later
                if (found := inner()):
                    print(found)
                try:
                    pass
                except ValueError as error:
                    print(error)
                match args:
                    case [head, *tail] if head:
                        return head, tail
                    case {"k": value, **rest}:
                        return value, rest
                return {k: v for k, v in kw.items()}, counter, __name__, __file__

        later = 1
        """,
    "loop carries a value": """
        def f(xs):
            for x in xs:
                if x:
                    print(last)
                last = x
        """,
    "condition after what it guards": "def f(g):\n    return found if (found := g()) else None\n",
    "kernels the tree uses": """
        import sgl_kernel
        from sgl_kernel.speculative import sample

        sgl_kernel.fuse(sample)
        """,
    "maybe not yet": """
        def f(xs):
            try:
                return total
            except UnboundLocalError:
                total = sum(xs)
            return total
        """,
    "names of a class": """
        class New:
            where = __qualname__, __module__

            def go(self):
                return __class__, __name__, __file__
        """,
    "caught": """
        def f():
            try:
                return nope
            except NameError:
                return 0
        """,
}

BAD = {
    "no such module": ("import sglang.nowhere.deep", "there is no module sglang.nowhere.deep"),
    "no such package": ("from sglang.gone import x", "there is no module sglang.gone"),
    "no such name": ("from sglang.base import Bach", "sglang.base has no Bach"),
    "under TYPE_CHECKING": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sglang.base import Gone\n",
        "sglang.base has no Gone",
    ),
    "in a function": ("def f():\n    from sglang.base import Gone\n", "sglang.base has no Gone"),
    "relative": ("from .base import Gone", "sglang.base has no Gone"),
    "hidden by __all__": ("from sglang.pkg import hidden", "sglang.pkg has no hidden"),
    "private through a star": ("from sglang.stars import _second", "sglang.stars has no _second"),
    "of a module": ("import sglang.base as b\nb.Gone", "sglang.base has no attribute Gone"),
    "of a class": ("from sglang.base import Batch\nBatch.gone", "Batch has no attribute gone"),
    "of an enum": (
        "from sglang.base import Algorithm\nAlgorithm.DDTREE",
        "Algorithm has no attribute DDTREE",
    ),
    "of a parameter": (
        "from sglang.base import Batch\ndef f(batch: Batch):\n    return batch.siz\n",
        "Batch has no attribute siz",
    ),
    "of an optional parameter": (
        "from typing import Optional\nfrom sglang.base import Batch\n"
        "def f(batch: Optional['Batch']):\n    return batch.siz\n",
        "Batch has no attribute siz",
    ),
    "of either": (
        "from sglang.base import Batch, Request\ndef f(it: Batch | Request):\n    return it.gone\n",
        "Batch or Request has no attribute gone",
    ),
    "of what a constructor makes": (
        "from sglang.base import Request\nx = Request('a')\nx.lenght\n",
        "Request has no attribute lenght",
    ),
    "of what a function returns": (
        "from sglang.base import Batch\nx = Batch.make()\nx.gone\n",
        "Base has no attribute gone",
    ),
    "not among those set by name": (
        "from sglang.base import Named\nNamed().top_k\n",
        "Named has no attribute top_k",
    ),
    "of an element": (
        "from sglang.base import Batch\n"
        "def f(batch: Batch):\n    for i, r in enumerate(batch.reqs):\n        r.ridd\n",
        "Request has no attribute ridd",
    ),
    "of an element of a comprehension": (
        "from sglang.base import Batch\n"
        "def f(batch: Batch):\n    return [r.ridd for r in batch.reqs]\n",
        "Request has no attribute ridd",
    ),
    "updated in place": (
        "from sglang.base import Request\ndef f(req: Request):\n    req.spec_ct += 1\n",
        "Request has no attribute spec_ct",
    ),
    "of a class that was not asked for": (
        "from sglang.base import Sealed, Request\n"
        "def f(it: Sealed):\n    return it.gone if isinstance(it, Request) else None\n",
        "Sealed has no attribute gone",
    ),
    "by getattr": (
        "from sglang.base import Sealed\ngetattr(Sealed(), 'gone')\n",
        "Sealed has no attribute gone",
    ),
    "of self": (
        "class New:\n    def go(self):\n        return self.helper()\n",
        "New has no attribute helper",
    ),
    "of self, with a base of the tree": (
        "from sglang.base import Batch\n"
        "class New(Batch):\n    def go(self):\n        return self.latest\n",
        "New has no attribute latest",
    ),
    "passed on to nobody": (
        "from sglang.base import Sealed\n"
        "class New:\n"
        "    def __init__(self, target: Sealed):\n        self.target = target\n"
        "    def __getattr__(self, name):\n        return getattr(self.target, name)\n"
        "    def go(self):\n        return self.gone\n",
        "New has no attribute gone",
    ),
    "of super": (
        "from sglang.base import Batch\n"
        "class New(Batch):\n    def go(self):\n        return super().go()\n",
        "super() of New has no attribute go",
    ),
    "undefined": ("def f():\n    return enable_overlap\n", "enable_overlap is not defined here"),
    "class names are not seen in methods": (
        "class New:\n    size = 1\n    def go(self):\n        return size\n",
        "size is not defined here",
    ),
    "comprehension variables stay inside": (
        "def f(xs):\n    [x for x in xs]\n    return x\n",
        "x is not defined here",
    ),
    "no dunder of a module": ("print(__nmae__)\n", "__nmae__ is not defined here"),
    "too early": (
        "def f(a):\n    if a:\n        print(worker)\n    worker = a\n",
        "worker is used before it gets a value",
    ),
    "too early in itself": ("def f():\n    n = n + 1\n", "n is used before it gets a value"),
}


@pytest.mark.parametrize("new", GOOD.values(), ids=GOOD)
def test_accepts(new: str) -> None:
    result = names(new, LIBRARY)
    assert messages(result.findings) == []
    assert result.checked + result.unknown > 0


@pytest.mark.parametrize(("new", "message"), BAD.values(), ids=BAD)
def test_rejects(new: str, message: str) -> None:
    result = names(new, LIBRARY)
    assert messages(result.findings) == [message]
    finding = result.findings[0]
    assert finding.severity is Severity.ERROR
    assert finding.level == "names"
    assert finding.site is not None
    assert finding.site.path == NEW
    assert finding.expected
    assert finding.found
    assert finding.next_step


def test_says_where_a_name_went() -> None:
    files = {"old.py": "x = 1\n", "far/new_home.py": "def moved(a):\n    return a\n"}
    finding = names("from sglang.old import moved\n", files).findings[0]
    assert str(finding.nearest[0].site) == "sglang/far/new_home.py:1"
    assert finding.nearest[0].text == "def moved(a):"
    assert finding.next_step == "take it from sglang/far/new_home.py"


def test_suggests_the_nearest_name_with_its_line() -> None:
    finding = names(
        "from sglang.base import Batch\n\ndef f(b: Batch):\n    return b.secnd\n", LIBRARY
    ).findings[0]
    near = finding.nearest[0]
    assert (near.text, near.site.path) == ("second", "sglang/base.py")
    assert "self.first, self.second" in dedent(LIBRARY["base.py"]).splitlines()[near.site.line - 1]
    assert near.score > 0.8
    assert finding.site is not None
    assert (finding.site.line, finding.site.column, finding.site.scope) == (4, 12, "f")


def test_an_unproved_kernel_is_a_warning() -> None:
    result = names(
        "from sgl_kernel.speculative import walk\nimport sgl_kernel\nsgl_kernel.gone\n", LIBRARY
    )
    assert [(f.code, f.severity) for f in result.findings] == [
        ("names.unproved", Severity.WARNING)
    ] * 2
    assert "sgl_kernel.speculative.walk" in result.findings[0].message


def test_a_proved_kernel_carries_its_evidence() -> None:
    result = names("from sgl_kernel.speculative import sample\n", LIBRARY)
    assert result.findings == []
    site = result.evidence["sgl_kernel.speculative.sample"]
    assert (site.path, site.line) == ("sglang/kernels.py", 4)


def test_new_code_is_no_evidence_for_itself() -> None:
    first = "from sgl_kernel import invented\n"
    before = tree_of({})
    after = before.with_changes({NEW: first.encode(), "sglang/two.py": first.encode()})
    result = examine_names(before, after, {NEW: WHOLE, "sglang/two.py": WHOLE})
    assert len(result.findings) == 2


def test_only_changed_lines_count() -> None:
    text = "a = missing_one\nb = missing_two\nc = missing_three\n"
    tree = tree_of({"old.py": text})
    result = examine_names(tree, tree, {"sglang/old.py": ((2, 2),)})
    assert messages(result.findings) == ["missing_two is not defined here"]


def test_a_changed_line_inside_an_old_function_sees_its_scope() -> None:
    text = """
        from sglang.base import Batch

        def f(batch: Batch, flag):
            worker = 1
            if flag:
                return batch.sizes + worker + unknown
            return batch.nothing
        """
    tree = tree_of({**LIBRARY, "old.py": text})
    result = examine_names(tree, tree, {"sglang/old.py": ((7, 7),)})
    assert messages(result.findings) == [
        "Batch has no attribute sizes",
        "unknown is not defined here",
    ]


def test_unknown_counts_what_cannot_be_decided() -> None:
    result = names("import torch\n\ndef f(x):\n    return x.a, torch.b\n", {})
    assert result.findings == []
    assert result.unknown >= 3


def test_a_file_that_does_not_parse_is_left_to_another_level() -> None:
    assert names("def (:\n", {}).findings == []


def test_the_level_says_what_it_proves() -> None:
    assert (CHECK.level, CHECK.rank) == ("names", 3)
    assert "import" in CHECK.proves


# ------------------------------------------------------------ official releases

SPECULATIVE = "sglang/srt/speculative"
Releases = Callable[[str], Tree]


def _new(tree: Tree, path: str, change: Callable[[str], str] = lambda text: text) -> list[str]:
    """Findings for a file of a release, changed and taken as new."""
    text = change(tree.read(path).decode())
    after = tree.with_changes({path: text.encode()})
    return messages(examine_names(tree, after, {path: WHOLE}).findings)


KNOWN_DEFECTS = {
    "Req has no attribute kv_receiver",  # the annotation says Req, the caller passes another class
    "Req has no attribute req",
    "LogitsProcessorOutput or PPProxyTensors has no attribute pooled_hidden_states",  # likewise
    "sglang.srt.speculative.eagle_utils has no EagleVerifyInput",  # would fail when it runs
    "MultiLayerEagleWorker has no attribute draft_model_runner",  # would fail with EAGLE3
}
"""Everything the level reports in the release's own files, and why each is no false report."""


@pytest.mark.network
def test_a_release_reports_nothing_against_itself(release_tree: Releases) -> None:
    tree = release_tree("0.5.11")
    folders = (f"{SPECULATIVE}/", "sglang/srt/managers/", "sglang/srt/model_executor/")
    paths = [p for p in tree.python_files() if p.startswith(folders)]
    result = examine_names(tree, tree, dict.fromkeys(paths, WHOLE))
    assert set(messages(result.findings)) == KNOWN_DEFECTS
    assert len(paths) > 70
    assert result.checked > 50_000


MUTATIONS = {
    "an import": (
        r"import ModelWorkerBatch, ScheduleBatch",
        "import ModelWorkerBatch, ScheduleBatches as ScheduleBatch",
        "sglang.srt.managers.schedule_batch has no ScheduleBatches",
    ),
    "a module": (
        "from sglang.srt.speculative.dflash_utils import",
        "from sglang.srt.speculative.dflash_tools import",
        "there is no module sglang.srt.speculative.dflash_tools",
    ),
    "an attribute of a batch": (
        r"batch\.is_extend_in_batch",
        "batch.is_extend",
        "ScheduleBatch has no attribute is_extend",
    ),
    "an attribute of self": (
        r"self\.page_size\b(?!\s*=)",
        "self.pagesize",
        "DFlashWorker has no attribute pagesize",
    ),
    "a local": (r"= verify_input\b", "= verify_inputs", "verify_inputs is not defined here"),
}


@pytest.mark.network
@pytest.mark.parametrize(("old", "new", "message"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutated_release_file_is_reported(
    release_tree: Releases, old: str, new: str, message: str
) -> None:
    def change(text: str) -> str:
        changed, count = re.subn(old, new, text, count=1)
        assert count == 1
        return changed

    assert message in _new(release_tree("0.5.11"), f"{SPECULATIVE}/dflash_worker.py", change)


DROPS = {
    ("0.5.11", "0.5.12"): {
        "sglang.srt.speculative.dflash_utils has no compute_dflash_accept_len_and_bonus",
        "sglang.srt.speculative.dflash_utils has no compute_dflash_sampling_accept_len_and_bonus",
        "Req has no attribute spec_accepted_drafts",
        "ServerArgs has no attribute speculative_dflash_draft_window_size",
    },
    ("0.5.12", "0.5.12.post1"): set(),
    ("0.5.12.post1", "0.5.13"): {
        "sglang.srt.managers.schedule_batch has no ModelWorkerBatch",
        "Req has no attribute check_finished",
    },
    ("0.5.13", "0.5.13.post1"): set(),
}


@pytest.mark.network
@pytest.mark.parametrize(("source", "target"), DROPS)
def test_an_old_worker_breaks_on_a_newer_release_where_it_should(
    release_tree: Releases, source: str, target: str
) -> None:
    old, tree = release_tree(source), release_tree(target)
    files = [f"{SPECULATIVE}/dflash_worker.py", f"{SPECULATIVE}/dflash_info.py"]
    after = tree.with_changes({p: old.read(p) for p in files})
    found = examine_names(tree, after, dict.fromkeys(files, WHOLE)).findings
    assert set(messages(found)) == DROPS[source, target]


@pytest.mark.network
def test_a_branch_that_landed_in_the_wrong_method_is_reported(release_tree: Releases) -> None:
    """What a textual patch for ``create_worker`` does, without a word, to a later release."""
    tree = release_tree("0.5.14")
    path = f"{SPECULATIVE}/spec_info.py"
    lines = tree.read(path).decode().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "def handle_server_args" in line)
    at = next(i for i in range(at, len(lines)) if "if self.is_dflash()" in lines[i])
    branch = [
        "        if self.is_ddtree():\n",
        "            if enable_overlap:\n",
        "                raise ValueError('no overlap')\n",
        "            return DDTreeWorker\n",
    ]
    text = "".join([*lines[:at], *branch, *lines[at:]])
    after = tree.with_changes({path: text.encode()})
    found = examine_names(tree, after, {path: ((at + 1, at + len(branch)),)}).findings
    assert messages(found) == [
        "SpeculativeAlgorithm has no attribute is_ddtree",
        "enable_overlap is not defined here",
        "DDTreeWorker is not defined here",
    ]
    assert {f.site.scope for f in found if f.site} == {"SpeculativeAlgorithm.handle_server_args"}
