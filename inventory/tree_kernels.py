"""Which tree utilities exist, where they can be imported from, and how they are called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from inventory._syntax import (
    classes,
    functions,
    imported_from,
    last_name,
    module_of,
    qualified,
    shown,
    signature,
)
from inventory.model import Case, Inventory, Query, Row, Value
from patcher.source import Source

_TREE = re.compile(
    r"\w*(?:build_tree_kernel|verify_tree_greedy|indices_from_tree_mask"
    r"|tree_speculative_sampling|reconstruct_tree|tree_proposal|chain_tree|traverse_tree)\w*"
    r"|TreeMaskMode"
)


def visit(source: Source) -> Iterator[Row]:
    """Definitions, imports and calls of one file."""
    module = module_of(source.path)
    for function in functions(source):
        if _TREE.fullmatch(function.name):
            path = f"{module}.{qualified(source, function)}"
            yield _row(
                source, function, "definition", function.name, path, text=signature(function)
            )
    for node in classes(source):
        if _TREE.fullmatch(node.name):
            path = f"{module}.{qualified(source, node)}"
            members = [shown(source, s) for s in node.body if isinstance(s, ast.Assign)]
            yield _row(source, node, "definition", node.name, path, text="; ".join(members))
    for imported in source.nodes(ast.ImportFrom):
        assert isinstance(imported, ast.ImportFrom)
        for alias in imported.names:
            if _TREE.fullmatch(alias.name):
                path = f"{imported_from(source, imported)}.{alias.name}"
                yield _row(source, alias, "import", alias.name, path)
    for call in source.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        name = last_name(call)
        if _TREE.fullmatch(name):
            given = [*map(ast.unparse, call.args), *map(ast.unparse, call.keywords)]
            yield _row(source, call, "call", name, "", text=f"({', '.join(given)})")


def _row(
    source: Source, node: ast.AST, role: str, name: str, import_path: str, *, text: str = ""
) -> Row:
    fields: dict[str, Value] = {
        "role": role,
        "name": name,
        "import_path": import_path,
        "signature": text,
        "importable_from": (),
    }
    return Row(source.site(node), fields)


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterable[Row]:
    """Tell of each name all modules of this tree that it can be imported from."""
    homes: dict[str, set[str]] = {}
    for row in rows:
        if row.fields["role"] != "call" and not row.site.scope:
            homes.setdefault(str(row.fields["name"]), set()).add(module_of(row.site.path))
    for row in rows:
        if row.fields["role"] == "call":
            yield row
        else:
            found = tuple(sorted(homes.get(str(row.fields["name"]), ())))
            yield Row(row.site, {**row.fields, "importable_from": found})


_CASE = Case(
    "a definition with its signature, an import from a compiled package, and a call",
    {
        "sglang/srt/speculative/eagle_utils.py": """\
def verify_tree_greedy_func(predicts: torch.Tensor, topk: int = -1):
    from sgl_kernel import verify_tree_greedy
    verify_tree_greedy(predicts=predicts)
    return predicts
""",
        "sglang/srt/speculative/eagle_info.py": """\
from .eagle_utils import verify_tree_greedy_func
""",
    },
    (
        {
            "role": "definition",
            "name": "verify_tree_greedy_func",
            "signature": "(predicts: torch.Tensor, topk: int=-1)",
            "importable_from": (
                "sglang.srt.speculative.eagle_info",
                "sglang.srt.speculative.eagle_utils",
            ),
            "line": 1,
        },
        {
            "role": "import",
            "name": "verify_tree_greedy_func",
            "import_path": "sglang.srt.speculative.eagle_utils.verify_tree_greedy_func",
        },
        {
            "role": "import",
            "import_path": "sgl_kernel.verify_tree_greedy",
            "scope": "verify_tree_greedy_func",
            "importable_from": (),
        },
        {"role": "call", "name": "verify_tree_greedy", "signature": "(predicts=predicts)"},
    ),
)

QUERY = Query(
    id="tree_kernels",
    title="Tree kernels",
    why="Whether a tree can be built and verified with what is there depends on the names, homes"
    " and signatures of these utilities.",
    columns={
        "name": "the utility",
        "role": "definition, import or call",
        "signature": "parameters of a definition, arguments of a call, members of an enum",
        "import_path": "dotted path of the definition, or of what is imported",
        "importable_from": "modules of this tree that have the name at module level",
    },
    prefilter=(
        b"build_tree_kernel",
        b"verify_tree_greedy",
        b"from_tree_mask",
        b"tree_speculative_sampling",
        b"reconstruct_tree",
        b"tree_proposal",
        b"chain_tree",
        b"traverse_tree",
        b"TreeMaskMode",
    ),
    visit=visit,
    resolve=resolve,
    cases=(_CASE,),
    order=(("role", ("definition", "import", "call")),),
    expects={
        name: {"role": "definition", "name": name}
        for name in ("build_tree_kernel_efficient", "verify_tree_greedy_func", "TreeMaskMode")
    },
)
