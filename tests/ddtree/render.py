"""Render the DDTREE templates for a release, from probes of its code.

A plain reading of ``patches/ddtree/context.toml``: good enough for these tests, which only need
the rendered modules. The product's own engine evaluates the same file.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import jinja2

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "templates" / "ddtree"
CONTEXT = ROOT / "patches" / "ddtree" / "context.toml"

#: Values as of 0.5.11, for the modules whose text does not depend on the release.
NEUTRAL = {
    "current_token_field": "verified_id",
    "finish_check": "check_finished",
    "correct_drafts_counter": "spec_accepted_drafts",
    "correct_drafts_histogram": "update_spec_acceptance_histogram",
    "draft_window_field": "speculative_dflash_draft_window_size",
    "forward_batch_holds_pools": True,
}


class ProbeError(Exception):
    """No choice of a variable matches."""


def _scope(tree: ast.Module, qualified_name: str) -> ast.AST | None:
    node: ast.AST | None = tree
    for name in qualified_name.split("."):
        body = getattr(node, "body", [])
        node = next((part for part in body if getattr(part, "name", None) == name), None)
        if node is None:
            return None
    return node


def _matches(node: ast.AST, pattern: ast.AST) -> bool:
    """Whether a node is what the pattern says; a name starting with META_ stands for anything."""
    if isinstance(pattern, ast.Name) and pattern.id.startswith("META_"):
        return True
    if type(node) is not type(pattern):
        return False
    for name, wanted in ast.iter_fields(pattern):
        if name in ("ctx", "type_comment", "kind", "simple"):
            continue
        found = getattr(node, name)
        if isinstance(pattern, ast.AnnAssign) and name == "value" and wanted is None:
            continue
        if isinstance(wanted, ast.AST):
            if not isinstance(found, ast.AST) or not _matches(found, wanted):
                return False
        elif isinstance(wanted, list):
            if len(found) != len(wanted):
                return False
            if not all(_matches(a, b) for a, b in zip(found, wanted, strict=True)):
                return False
        elif found != wanted:
            return False
    return True


def _holds(choice: dict[str, Any], package_parent: Path) -> bool:
    source = package_parent / choice["file"]
    if not source.is_file():
        return False
    scope = _scope(ast.parse(source.read_bytes()), choice["scope"])
    if scope is None:
        return False
    statement = ast.parse(re.sub(r"\$([A-Z]+)", r"META_\1", choice["pattern"])).body[0]
    wanted = statement.value if isinstance(statement, ast.Expr) else statement
    return any(_matches(node, wanted) for node in ast.walk(scope))


def probe(package_parent: Path) -> dict[str, Any]:
    """Value of every variable for the release whose ``sglang`` folder lies there."""
    values = {}
    for variable in tomllib.loads(CONTEXT.read_text())["variable"]:
        for choice in variable["choice"]:
            if _holds(choice, package_parent):
                values[variable["name"]] = choice["value"]
                break
        else:
            raise ProbeError(variable["name"])
    return values


def render(values: dict[str, Any]) -> dict[str, str]:
    """Text of every module by its path from the package's parent."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return {
        name.removesuffix(".j2"): environment.get_template(name).render(values)
        for name in environment.list_templates(extensions=["j2"])
    }


def write(values: dict[str, Any], package_parent: Path) -> list[Path]:
    """Render into a package; returns the files written."""
    written = []
    for name, text in render(values).items():
        path = package_parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written.append(path)
    return written
