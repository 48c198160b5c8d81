"""Which files make up speculative decoding, what each defines, and who imports it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from inventory._syntax import Function, imported_from, module_of
from inventory.model import Case, Inventory, Query, Row, Value
from patcher.source import Source

HOMES = ("sglang/srt/speculative/", "sglang/kernels/ops/speculative/")
_NAMED_AFTER = ("dflash", "eagle", "speculative", "ddtree")


def visit(source: Source) -> Iterator[Row]:
    """One row for a file of the family, one for each import that may reach one."""
    if _of_family(source.path):
        own = source.tree.body
        classes = tuple(n.name for n in own if isinstance(n, ast.ClassDef))
        functions = tuple(n.name for n in own if isinstance(n, Function))
        site = source.site_at(0, len(source.data))
        yield Row(site, _fields("module", module_of(source.path), classes, functions))
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
        "classes": classes,
        "functions": functions,
        "imported_by": (),
    }


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterator[Row]:
    """Fold the imports into the modules that they reach."""
    importers: dict[str, set[str]] = {}
    for row in rows:
        if row.fields["role"] == "import":
            importers.setdefault(str(row.fields["module"]), set()).add(row.site.path)
    for row in rows:
        if row.fields["role"] == "module":
            by = importers.get(str(row.fields["module"]), set()) - {row.site.path}
            yield Row(row.site, {**row.fields, "imported_by": tuple(sorted(by))})


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
        {"module": "sglang.srt.models.dflash", "imported_by": ("sglang/srt/other.py",)},
        {
            "module": "sglang.srt.speculative.eagle_utils",
            "classes": ("TreeMaskMode",),
            "functions": ("build",),
            "imported_by": ("sglang/srt/other.py", "sglang/srt/speculative/worker.py"),
            "line": 1,
            "end_line": 4,
        },
        {"module": "sglang.srt.speculative.worker", "imported_by": ()},
    ),
)

QUERY = Query(
    id="modules",
    title="Modules",
    why="The files of the family are where a new algorithm lands; their importers are what it can"
    " break.",
    columns={
        "role": "module",
        "module": "dotted name",
        "classes": "classes at module level",
        "functions": "functions at module level",
        "imported_by": "files that import it or from it",
    },
    prefilter=(b"speculative", b"eagle", b"dflash"),
    visit=visit,
    resolve=resolve,
    cases=(_CASE,),
    paths=(*HOMES, *_NAMED_AFTER),
)
