"""How graph runners learn how many tokens a request has in verify, and what they capture with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from inventory._conditions import reached_when
from inventory._syntax import bases, classes, functions, one_line, shown, signature
from inventory.model import Case, Query, Row, Value
from patcher.pattern import Pattern
from patcher.source import Source

_WIDTH = r"(?:self\.|\w+\.)?(?:num_tokens_per_(?:bs|req)|captured_req_width)"
_SET = Pattern("$WIDTH = $VALUE", where={"WIDTH": _WIDTH})
_ADJUSTED = re.compile(r"get_num_tokens_per_\w+_for_target_verify")
_INPUT = re.compile(r"get_spec_info|create_dummy_verify_input|_?dummy_run")
_WORDS = (
    b"GraphRunner",
    b"BaseRunner",
    b"num_tokens_per_",
    b"captured_req_width",
    b"get_spec_info",
    b"create_dummy_verify_input",
    b"dummy_run",
)
_STEP = re.compile(r"(?:can_run|capture|replay|load_batch|execute|get_spec_info)\w*")


def visit(source: Source) -> Iterator[Row]:
    """Runner classes with their steps, the width where it is set, and the dummy verify input."""
    for node in classes(source):
        if not re.fullmatch(r"\w*GraphRunner\w*|\w*BaseRunner\w*", node.name):
            continue
        yield _row(source, node, "runner", node.name, ", ".join(bases(node)))
    for match in _SET.find(source):
        name, value = match.text("WIDTH"), match.text("VALUE")
        when = reached_when(source, match.node)
        yield _row(source, match.node, "width", name, value, when=when)
    captures = any(word in source.data for word in _WORDS)
    for function in functions(source):
        owner = source.parent(function)
        in_runner = captures and isinstance(owner, ast.ClassDef) and "Runner" in owner.name
        if _ADJUSTED.fullmatch(function.name):
            returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
            value = "; ".join(shown(source, value) for value in returned)
            yield _row(source, function, "width-method", function.name, value)
        elif _INPUT.fullmatch(function.name):
            yield _row(source, function, "verify-input", function.name, signature(function))
        elif in_runner and _STEP.fullmatch(function.name):
            yield _row(source, function, "step", function.name, signature(function))


def _row(source: Source, node: ast.AST, role: str, name: str, value: str, *, when: str = "") -> Row:
    fields: dict[str, Value] = {
        "role": role,
        "name": name,
        "value": one_line(value),
        "when": when,
    }
    return Row(source.site(node), fields)


_CASE = Case(
    "a runner whose width depends on the algorithm, its input and its steps",
    {
        "sglang/srt/model_executor/cuda_graph_runner.py": """\
class CudaGraphRunner:
    def __init__(self, model_runner):
        self.num_tokens_per_bs = 1
        if model_runner.spec_algorithm.is_speculative():
            if self.model_runner.is_draft_worker:
                raise RuntimeError
            else:
                self.num_tokens_per_bs = self.speculative_num_draft_tokens

    def can_run(self, forward_batch): ...
    def get_spec_info(self, num_tokens: int): ...
""",
        "sglang/srt/speculative/spec_info.py": """\
class SpeculativeAlgorithm:
    def get_num_tokens_per_bs_for_target_verify(self, num_draft_tokens, is_draft_worker):
        return num_draft_tokens
""",
    },
    (
        {"role": "width-method", "value": "num_draft_tokens"},
        {"role": "width", "name": "self.num_tokens_per_bs", "value": "1", "when": ""},
        {
            "role": "width",
            "value": "self.speculative_num_draft_tokens",
            "when": "model_runner.spec_algorithm.is_speculative()"
            " and not self.model_runner.is_draft_worker",
            "line": 8,
        },
        {"role": "verify-input", "name": "get_spec_info", "scope": "CudaGraphRunner"},
        {"role": "runner", "name": "CudaGraphRunner"},
        {"role": "step", "name": "can_run", "value": "(self, forward_batch)"},
    ),
)

QUERY = Query(
    id="graph_runners",
    title="Graph runners",
    why="A captured graph has a fixed number of tokens per request and a fixed kind of mask; a"
    " wider tree must be known before capture.",
    columns={
        "name": "the class, what holds the width, or the function",
        "role": "runner, width, width-method, verify-input or step",
        "value": "bases, the value set, what a width method returns, or a signature",
        "when": "the conditions under which the width is set, outermost first",
    },
    prefilter=_WORDS,
    visit=visit,
    cases=(_CASE,),
    order=(("role", ("width-method", "width", "verify-input", "runner", "step")),),
    expects={
        "EAGLEDraftCudaGraphRunner": {"role": "runner", "name": "EAGLEDraftCudaGraphRunner"},
        "num_tokens_per_*": {"role": "width"},
    },
)
