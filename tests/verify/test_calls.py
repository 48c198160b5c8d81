"""Level ``calls``: what binds, what must not, and which overrides fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent

import pytest

from patcher.model import Severity
from patcher.resolve.calling import examine_calls
from patcher.tree import Tree
from patcher.verify.calls import CHECK
from tests.verify.small import NEW, WHOLE, calls, messages, tree_of

LIBRARY = {
    "base.py": """
        import functools
        from abc import ABC, abstractmethod
        from contextlib import contextmanager
        from dataclasses import KW_ONLY, InitVar, dataclass, field
        from enum import Enum
        from typing import ClassVar, NamedTuple, Optional

        import msgspec
        import torch
        import triton

        def plain(a, b, c=1, *, key=None): ...
        def posonly(a, /, b): ...
        def anything(*args, **kwargs): ...
        async def later(a): ...

        @torch.no_grad()
        @functools.lru_cache(maxsize=None)
        def kept(a): ...

        @contextmanager
        def opened(path): yield path

        @torch.custom_thing
        def reshaped(a): ...

        @triton.jit
        def kernel(x_ptr, n, BLOCK: tl.constexpr): ...

        if torch.cuda.is_available():
            def either(a): ...
        else:
            def either(a, b): ...

        class Color(Enum):
            RED = 1

        @dataclass
        class Parent:
            first: int
            shared: ClassVar[int] = 0
            made: int = field(init=False, default=0)
            tags: list = field(default_factory=list, kw_only=True)

        @dataclass
        class Child(Parent):
            second: int = 2
            _: KW_ONLY
            third: int = 3
            fourth: int

        @dataclass(kw_only=True)
        class Named:
            one: int

        class Pair(NamedTuple):
            left: int
            right: int = 0

        class Event(msgspec.Struct, kw_only=True):
            kind: str

        class Stored(Event, kw_only=True):
            block: int = 0

        class Empty(ABC):
            pass

        class Net(torch.nn.Module):
            def __init__(self, width): ...

        class Net2(torch.nn.Module):
            pass

        class Worker(ABC):
            def __init__(self, gpu_id: int, *, rank: int = 0):
                self.gpu_id = gpu_id

            def __call__(self, batch): ...

            def forward(self, batch, is_verify=False):
                return batch

            @classmethod
            def make(cls, gpu_id): ...

            @staticmethod
            def check(a, b): ...

            @abstractmethod
            def draft(self, batch): ...

            def close(self): ...

        class TreeWorker(Worker):
            def draft(self, batch): ...

        class Pool:
            def put(self, layer, loc, value): ...

        class ScaledPool(Pool):
            def put(self, layer, loc, value, scale=None): ...
        """,
    "callers.py": """
        from sglang.base import Worker

        def use(worker: Worker):
            worker.forward(batch=1, is_verify=True)
            worker.draft(1)
        """,
}

GOOD = {
    "functions": """
        from sglang.base import plain, posonly, anything, later, kept, opened

        plain(1, 2)
        plain(1, b=2, key=3)
        posonly(1, b=2)
        anything(1, 2, x=3)
        kept(a=1)
        with opened("x") as it:
            pass
        """,
    "stars": """
        from sglang.base import plain

        def f(xs, kw):
            plain(*xs)
            plain(1, *xs, key=2)
            plain(**kw)
        """,
    "unknown decorator": "from sglang.base import reshaped\nreshaped(1, 2, 3)\n",
    "either branch": "from sglang.base import either\neither(1)\neither(1, 2)\n",
    "data classes": """
        from sglang.base import Child, Named, Parent

        Parent(1, tags=[])
        Child(1, 2, fourth=4)
        Child(first=1, third=3, fourth=4)
        Named(one=1)
        """,
    "generated constructors": """
        from sglang.base import Color, Empty, Pair, Stored

        Pair(1)
        Pair(left=1, right=2)
        Stored(kind="a", block=1)
        Empty()
        Color(1)
        """,
    "constructors": """
        from sglang.base import Net, Net2, TreeWorker

        TreeWorker(0, rank=1)
        Net(width=3)
        Net2(1, 2, 3)
        """,
    "methods": """
        from sglang.base import TreeWorker, Worker

        def f(worker: Worker):
            worker.forward(1, is_verify=True)
            worker(1)
            Worker.forward(worker, 1)
            Worker.make(0)
            worker.check(1, 2)
            TreeWorker.check(1, b=2)
        """,
    "overriding method takes more": """
        from sglang.base import Pool

        def f(pool: Pool):
            pool.put(1, 2, 3, 4)
        """,
    "kernels": "from sglang.base import kernel\nkernel[(1,)](1, 2, BLOCK=3, num_warps=4)\n",
    "partial": """
        from functools import partial
        from sglang.base import plain

        partial(plain, 1, key=2)
        """,
    "super": """
        from sglang.base import Worker

        class New(Worker):
            def __init__(self, gpu_id, extra):
                super().__init__(gpu_id, rank=1)
                self.extra = extra

            def draft(self, batch):
                return self.forward(batch, is_verify=True)

        New(0, extra=1)
        """,
    "override": """
        from sglang.base import Worker

        class New(Worker):
            def draft(self, batch, more=None): ...
            def forward(self, batch, is_verify=False, **kwargs): ...
            def close(self, *args): ...
            def __private(self): ...
        """,
    "own functions": "def f(a, *, b): ...\nf(1, b=2)\n",
    "abstract class that nobody makes": """
        from sglang.base import Worker

        class New(Worker):
            def close(self): ...
        """,
}

BAD = {
    "missing": (
        "from sglang.base import plain\nplain(1)\n",
        "plain() is missing a required argument: 'b'",
    ),
    "too many": (
        "from sglang.base import plain\nplain(1, 2, 3, 4)\n",
        "plain() gets too many positional arguments",
    ),
    "unexpected": (
        "from sglang.base import plain\nplain(1, 2, kee=4)\n",
        "plain() got an unexpected keyword argument 'kee'",
    ),
    "unexpected beside stars": (
        "from sglang.base import plain\nplain(*[1, 2], kee=4)\n",
        "plain() got an unexpected keyword argument 'kee'",
    ),
    "twice": (
        "from sglang.base import plain\nplain(1, 2, a=3)\n",
        "plain() gets multiple values for argument 'a'",
    ),
    "positional only": (
        "from sglang.base import posonly\nposonly(a=1, b=2)\n",
        "posonly() does not bind: 'a' parameter is positional only, but was passed as a keyword",
    ),
    "no branch": (
        "from sglang.base import either\neither(1, 2, 3)\n",
        "either() gets too many positional arguments",
    ),
    "of a module": (
        "import sglang.base as b\nb.kept()\n",
        "b.kept() is missing a required argument: 'a'",
    ),
    "constructor": (
        "from sglang.base import TreeWorker\nTreeWorker(0, 1)\n",
        "TreeWorker() gets too many positional arguments",
    ),
    "constructor without parameters": (
        "from sglang.base import Empty\nEmpty(1)\n",
        "Empty() gets too many positional arguments",
    ),
    "constructor over an outside base": (
        "from sglang.base import Net\nNet()\n",
        "Net() is missing a required argument: 'width'",
    ),
    "data class": (
        "from sglang.base import Child\nChild(1, fifth=1, fourth=1)\n",
        "Child() got an unexpected keyword argument 'fifth'",
    ),
    "field that is not a parameter": (
        "from sglang.base import Parent\nParent(1, made=1)\n",
        "Parent() got an unexpected keyword argument 'made'",
    ),
    "keyword-only field": (
        "from sglang.base import Named\nNamed(1)\n",
        "Named() gets too many positional arguments",
    ),
    "named tuple": (
        "from sglang.base import Pair\nPair()\n",
        "Pair() is missing a required argument: 'left'",
    ),
    "struct": (
        "from sglang.base import Stored\nStored(block=1)\n",
        "Stored() is missing a required argument: 'kind'",
    ),
    "method": (
        "from sglang.base import Worker\ndef f(w: Worker):\n    w.forward()\n",
        "w.forward() is missing a required argument: 'batch'",
    ),
    "method of a class": (
        "from sglang.base import Worker\nWorker.make()\n",
        "Worker.make() is missing a required argument: 'gpu_id'",
    ),
    "static method": (
        "from sglang.base import Worker\ndef f(w: Worker):\n    w.check(1)\n",
        "w.check() is missing a required argument: 'b'",
    ),
    "called object": (
        "from sglang.base import Worker\ndef f(w: Worker):\n    w()\n",
        "w() is missing a required argument: 'batch'",
    ),
    "no override takes it": (
        "from sglang.base import Pool\ndef f(p: Pool):\n    p.put(1, 2, 3, 4, 5)\n",
        "p.put() gets too many positional arguments",
    ),
    "kernel": (
        "from sglang.base import kernel\nkernel[(1,)](1, BLOCK=3)\n",
        "kernel[1,]() is missing a required argument: 'n'",
    ),
    "kernel keyword": (
        "from sglang.base import kernel\nkernel[(1,)](1, 2, BLOCK=3, num_wraps=4)\n",
        "kernel[1,]() got an unexpected keyword argument 'num_wraps'",
    ),
    "partial": (
        "from functools import partial\nfrom sglang.base import plain\npartial(plain, kee=2)\n",
        "plain() got an unexpected keyword argument 'kee'",
    ),
    "super": (
        "from sglang.base import TreeWorker\n"
        "class New(TreeWorker):\n    def __init__(self):\n        super().__init__()\n",
        "super().__init__() is missing a required argument: 'gpu_id'",
    ),
    "self": (
        "class New:\n    def a(self, x): ...\n    def b(self):\n        self.a()\n",
        "self.a() is missing a required argument: 'x'",
    ),
    "abstract class made": (
        "from sglang.base import Worker\nclass New(Worker):\n    pass\nNew(0)\n",
        "New has no draft, which Worker demands",
    ),
    "abstract class handed out": (
        "from sglang.base import Worker\n"
        "class New(Worker):\n    pass\ndef create():\n    return New\n",
        "New has no draft, which Worker demands",
    ),
    "override needs more": (
        "from sglang.base import Worker\n"
        "class New(Worker):\n    def draft(self, batch, tree): ...\n",
        "draft does not fit Worker.draft: it also needs tree",
    ),
    "override takes less": (
        "from sglang.base import Worker\nclass New(Worker):\n    def forward(self, batch): ...\n",
        "forward does not fit Worker.forward: it does not take is_verify",
    ),
    "override in another order": (
        "from sglang.base import Worker\n"
        "class New(Worker):\n    def forward(self, is_verify, batch): ...\n",
        "forward does not fit Worker.forward: batch stands in another place; "
        "is_verify stands in another place; it needs is_verify, which callers may leave out",
    ),
}


@pytest.mark.parametrize("new", GOOD.values(), ids=GOOD)
def test_accepts(new: str) -> None:
    result = calls(new, LIBRARY)
    assert messages(result.findings) == []
    assert result.checked + result.unknown > 0


@pytest.mark.parametrize(("new", "message"), BAD.values(), ids=BAD)
def test_rejects(new: str, message: str) -> None:
    result = calls(new, LIBRARY)
    assert messages(result.findings) == [message]
    finding = result.findings[0]
    assert finding.severity is Severity.ERROR
    assert finding.level == "calls"
    assert finding.site is not None
    assert finding.site.path == NEW
    assert finding.expected
    assert finding.found
    assert finding.next_step


def test_a_finding_shows_the_call_and_the_real_signature() -> None:
    finding = calls("from sglang.base import plain\n\nplain(1, 2, kee=4)\n", LIBRARY).findings[0]
    line = dedent(LIBRARY["base.py"]).splitlines().index("def plain(a, b, c=1, *, key=None): ...")
    assert finding.expected == f"plain(a, b, c=…, *, key=…) at sglang/base.py:{line + 1}"
    assert finding.found == "plain(1, 2, kee=4)"
    assert [c.text for c in finding.nearest] == ["key"]
    assert finding.next_step == "see whether key is what was meant"
    assert finding.site is not None
    assert finding.site.line == 3


def test_a_renamed_parameter_is_a_warning_where_callers_name_it() -> None:
    text = """
        from sglang.base import Worker

        class New(Worker):
            def forward(self, forward_batch, is_verify=False): ...
            def draft(self, draft_batch): ...
        """
    findings = calls(text, LIBRARY).findings
    assert [(f.message, f.severity) for f in findings] == [
        (
            "forward does not fit Worker.forward: batch is called forward_batch here",
            Severity.WARNING,
        )
    ]


def test_what_other_overrides_do_too_is_accepted() -> None:
    text = "from sglang.base import Worker\nclass New(Worker):\n    def forward(self, batch): ...\n"
    precedent = text.replace("New", "Old").replace("(self, batch)", "(self, other)")
    assert len(calls(text, LIBRARY).findings) == 1
    assert calls(text, {**LIBRARY, "old.py": precedent}).findings == []


def test_new_code_is_no_precedent_for_itself() -> None:
    text = (
        "from sglang.base import Worker\n"
        "class New(Worker):\n    def forward(self, batch): ...\n"
        "class Newer(Worker):\n    def forward(self, batch): ...\n"
    )
    assert len(calls(text, LIBRARY).findings) == 2


def test_a_placeholder_is_held_against_its_callers_only() -> None:
    files = {
        "base.py": "class Base:\n    def draft(self):\n        raise NotImplementedError\n",
        "use.py": "def use(worker):\n    worker.draft({arguments})\n",
    }
    text = "from sglang.base import Base\nclass New(Base):\n    def draft(self, batch): ...\n"
    fine = {**files, "use.py": files["use.py"].format(arguments="1")}
    broken = {**files, "use.py": files["use.py"].format(arguments="")}
    assert calls(text, fine).findings == []
    assert messages(calls(text, broken).findings) == [
        "draft does not fit Base.draft: it also needs batch"
    ]


def test_only_calls_that_touch_a_changed_line_count() -> None:
    text = "def f(a): ...\nf()\nf(\n    b=1,\n)\nf(c=1)\n"
    tree = tree_of({"old.py": text})
    found = examine_calls(tree, tree, {"sglang/old.py": ((4, 4),)}).findings
    assert [f.site.line for f in found if f.site] == [3]


def test_the_level_says_what_it_proves() -> None:
    assert (CHECK.level, CHECK.rank) == ("calls", 4)
    assert "binds" in CHECK.proves


# ------------------------------------------------------------ official releases

SPECULATIVE = "sglang/srt/speculative"
Releases = Callable[[str], Tree]

KNOWN_DEFECTS = {
    "BatchTokenIDOutput() is missing a required argument: 'routed_experts'",
    "BatchEmbeddingOutput() is missing a required argument: 'retraction_counts'",
}
"""Calls of the release itself that raise TypeError when they run."""


@pytest.mark.network
def test_a_release_reports_nothing_against_itself(release_tree: Releases) -> None:
    tree = release_tree("0.5.11")
    folders = (f"{SPECULATIVE}/", "sglang/srt/managers/", "sglang/srt/model_executor/")
    paths = [p for p in tree.python_files() if p.startswith(folders)]
    result = examine_calls(tree, tree, dict.fromkeys(paths, WHOLE))
    assert set(messages(result.findings)) == KNOWN_DEFECTS
    assert result.checked > 3_000


MUTATIONS = {
    "an argument dropped": (
        r"draft_token=draft_tokens\.reshape\(-1\),",
        "",
        "DFlashVerifyInput() is missing a required argument: 'draft_token'",
    ),
    "a keyword renamed": (
        r"can_run_cuda_graph=can_run_cuda_graph",
        "can_run_graph=can_run_cuda_graph",
        "GenerationBatchResult() got an unexpected keyword argument 'can_run_graph'",
    ),
    "an argument too many": (
        r"self\.target_worker\.forward_batch_generation\(batch,",
        "self.target_worker.forward_batch_generation(batch, 1, 2, 3, 4, 5,",
        "self.target_worker.forward_batch_generation() gets too many positional arguments",
    ),
}


@pytest.mark.network
@pytest.mark.parametrize(("old", "new", "message"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutated_release_file_is_reported(
    release_tree: Releases, old: str, new: str, message: str
) -> None:
    tree = release_tree("0.5.11")
    path = f"{SPECULATIVE}/dflash_worker.py"
    text, count = re.subn(old, new, tree.read(path).decode(), count=1)
    assert count == 1
    after = tree.with_changes({path: text.encode()})
    found = examine_calls(tree, after, {path: WHOLE}).findings
    assert message in messages(found)


@pytest.mark.network
def test_a_parameter_that_a_release_drops_is_reported(release_tree: Releases) -> None:
    tree = release_tree("0.5.11")
    utils, worker = f"{SPECULATIVE}/dflash_utils.py", f"{SPECULATIVE}/dflash_worker.py"
    text = tree.read(utils).decode()
    changed = re.sub(r"(def parse_dflash_draft_config\(\*, )\w+", r"\1renamed", text, count=1)
    assert changed != text
    after = tree.with_changes({utils: changed.encode()})
    found = examine_calls(after, after, {worker: WHOLE}).findings
    assert messages(found) == [
        "parse_dflash_draft_config() is missing a required argument: 'renamed'"
    ]


DROPS = {
    ("0.5.11", "0.5.12"): {
        "GenerationBatchResult() got an unexpected keyword argument 'num_accepted_drafts'"
    },
    ("0.5.12", "0.5.12.post1"): set(),
    ("0.5.12.post1", "0.5.13"): {
        "ForwardBatch() got an unexpected keyword argument 'req_to_token_pool'"
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
    found = examine_calls(tree, after, dict.fromkeys(files, WHOLE)).findings
    assert set(messages(found)) == DROPS[source, target]
