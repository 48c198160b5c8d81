"""Which files make up speculative decoding, what each defines, who imports it, and who decides.

A file outside the family that decides by algorithm, input or width is a ``guest``: a new algorithm
may have to change it, too.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from inventory import dispatch
from inventory._syntax import Function, imported_from, module_of
from inventory.model import Case, Inventory, Query, Row, Value
from patcher.source import Source

HOMES = ("sglang/srt/speculative/", "sglang/kernels/ops/speculative/")
_NAMED_AFTER = ("dflash", "eagle", "speculative", "ddtree")


def visit(source: Source) -> Iterator[Row]:
    """One row for the file, one for each import that may reach one of the family."""
    role = "module" if _of_family(source.path) else "guest"
    own = source.tree.body
    classes = tuple(n.name for n in own if isinstance(n, ast.ClassDef))
    functions = tuple(n.name for n in own if isinstance(n, Function))
    site = source.site_at(0, len(source.data))
    yield Row(site, _fields(role, module_of(source.path), classes, functions))
    for node in source.nodes(ast.ImportFrom, ast.Import):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            home = imported_from(source, node)
            names = [home, *(f"{home}.{alias.name}" for alias in node.names)]
        for name in names:
            if any(word in name for word in _NAMED_AFTER):
                yield Row(source.site(node), _fields("import", name, (), ()))


def _of_family(path: str) -> bool:
    name = path.rpartition("/")[2]
    models = path.startswith("sglang/srt/models/") and any(w in name for w in _NAMED_AFTER)
    return path.startswith(HOMES) or models


def _fields(
    role: str, module: str, classes: tuple[str, ...], functions: tuple[str, ...]
) -> dict[str, Value]:
    return {
        "role": role,
        "module": module,
        "sites": 0,
        "classes": classes,
        "functions": functions,
        "imported_by": (),
    }


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterator[Row]:
    """Fold the imports into the modules that they reach; count the dispatch sites of each file."""
    sites = Counter(row.site.path for row in _deciding(inventory))
    importers: dict[str, set[str]] = {}
    for row in rows:
        if row.fields["role"] == "import":
            importers.setdefault(str(row.fields["module"]), set()).add(row.site.path)
    for row in rows:
        role, count = row.fields["role"], sites[row.site.path]
        if role == "module" or (role == "guest" and count):
            by = importers.get(str(row.fields["module"]), set()) - {row.site.path}
            yield Row(row.site, {**row.fields, "sites": count, "imported_by": tuple(sorted(by))})


def _deciding(inventory: Inventory) -> Iterator[Row]:
    if dispatch.QUERY.id in inventory.rows:  # it may not have been asked
        yield from dispatch.resolve(inventory.of(dispatch.QUERY.id), inventory)


_CASE = Case(
    "a module with what it defines and its importers, one that nobody imports, and a model",
    {
        "sglang/srt/speculative/eagle_utils.py": """\
import torch

class TreeMaskMode: ...
def build(): ...
""",
        "sglang/srt/speculative/worker.py": """\
def run():
    from .eagle_utils import build
""",
        "sglang/srt/models/dflash.py": "",  # found by its name
        "sglang/srt/other.py": """\
from sglang.srt.speculative import eagle_utils
import sglang.srt.models.dflash
""",
    },
    (
        {
            "module": "sglang.srt.speculative.eagle_utils",
            "classes": ("TreeMaskMode",),
            "functions": ("build",),
            "imported_by": ("sglang/srt/other.py", "sglang/srt/speculative/worker.py"),
            "line": 1,
            "end_line": 4,
        },
        {"module": "sglang.srt.speculative.worker", "imported_by": ()},
        {"module": "sglang.srt.models.dflash", "imported_by": ("sglang/srt/other.py",)},
    ),
)
_SITES = Case(
    "dispatch sites of each file, and a file outside the family that has some",
    {
        "sglang/srt/speculative/spec_info.py": """\
class SpeculativeAlgorithm(Enum):
    DFLASH = auto()

    def is_dflash(self) -> bool:
        return self == SpeculativeAlgorithm.DFLASH
""",
        "sglang/srt/managers/scheduler.py": """\
class Scheduler:
    def step(self):
        if self.spec_algorithm.is_dflash(): ...
        if self.spec_algorithm.is_dflash(): ...
""",
        "sglang/srt/models/dflash.py": "class DFlashAttention: ...\nclass DFlashDraftModel: ...\n",
        "sglang/srt/managers/other.py": "spec_algorithm = None\n",
    },
    (
        {"role": "module", "sites": 2, "classes": ("SpeculativeAlgorithm",)},
        {"role": "module", "sites": 0, "classes": ("DFlashAttention", "DFlashDraftModel")},
        {"role": "guest", "sites": 2, "path": "sglang/srt/managers/scheduler.py"},
    ),
)

QUERY = Query(
    id="modules",
    title="Modules",
    why="The files of the family are where a new algorithm lands; their importers are what it can"
    " break.",
    columns={
        "role": "module (of the family) or guest (outside it, with dispatch sites)",
        "sites": "dispatch sites in the file",
        "classes": "classes at module level",
        "functions": "functions at module level",
        "module": "dotted name",
        "imported_by": "files that import it or from it",
    },
    prefilter=dispatch.QUERY.prefilter,
    prefilter_any_case=dispatch.QUERY.prefilter_any_case,
    names=dispatch.names,
    visit=visit,
    resolve=resolve,
    cases=(_CASE, _SITES),
    paths=(*HOMES, *_NAMED_AFTER),
    order=(("role", ("module", "guest")), ("sites", ())),
    expects={
        name: {"module": f"sglang.srt.speculative.{name}"}
        for name in ("spec_info", "eagle_info", "eagle_utils")
    },
)
