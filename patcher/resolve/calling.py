"""Calls that new code makes bind, its overrides fit, and what it instantiates is complete.

A call is checked when what it calls is known and has known parameters; with ``*`` or ``**`` in
the call only what is certain is. Everything else counts as unknown and is never reported.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature

from patcher.collector import collector_paused
from patcher.model import Candidate, Finding, Severity, Site
from patcher.resolve.bindings import FUNCTIONS
from patcher.resolve.classes import ClassInfo, is_decorated
from patcher.resolve.evidence import Evidence
from patcher.resolve.infer import Inference
from patcher.resolve.overrides import Misfit, misfit_of, overridden
from patcher.resolve.program import Module, Program
from patcher.resolve.references import Reference, Region, references, touches
from patcher.resolve.signatures import mismatch, of_function, shown, signature_of
from patcher.resolve.suggest import in_place
from patcher.resolve.values import (
    ClassValue,
    External,
    FunctionValue,
    InstanceValue,
    Value,
    is_known,
)
from patcher.tree import Tree

LEVEL = "calls"


@dataclass
class CallsResult:
    """What the level found: ``checked`` calls and overrides were decided, ``unknown`` not."""

    findings: list[Finding] = field(default_factory=list)
    checked: int = 0
    unknown: int = 0


def examine_calls(
    before: Tree, after: Tree, changed: Mapping[str, tuple[Region, ...]]
) -> CallsResult:
    """Check every call and override of changed code; ``changed`` maps paths to regions."""
    with collector_paused():
        checker = _Checker(before, after)
        for path in sorted(changed):
            module = checker.program.module_at(path)
            if module is not None:
                checker.module(module, changed[path])
        checker.result.findings.sort(key=in_place)
        return checker.result


class _Checker:
    def __init__(self, before: Tree, after: Tree) -> None:
        self.program = Program(after)
        self.pristine = Program(before)
        self.inference = Inference(self.program)
        self.evidence = Evidence(self.inference)
        self.result = CallsResult()

    def module(self, module: Module, regions: Sequence[Region]) -> None:
        for reference in references(module, regions):
            match reference.node:
                case ast.Call():
                    self._call(reference.node, reference)
                case ast.ClassDef():
                    self._class(reference.node, reference, regions)
                case ast.Return(value=ast.Name() | ast.Attribute() as value):
                    for returned in self.inference.evaluate(value, reference.scope):
                        if isinstance(returned, ClassValue) and returned.exact:
                            self._complete(returned.info, reference.node, reference)

    # ------------------------------------------------------------------ calls

    def _call(self, node: ast.Call, at: Reference) -> None:
        values = self.inference.evaluate(node.func, at.scope)
        if len(values) == 1 and isinstance(values[0], External):
            if values[0].dotted == "functools.partial" and node.args:
                self._partial(node, at)
            return  # calls that leave the tree are nobody's to check
        if not is_known(values):
            self.result.unknown += 1
            return
        self._bind(values, node, node, at)
        for value in values:
            if isinstance(value, ClassValue) and value.exact:
                self._complete(value.info, node, at)

    def _partial(self, node: ast.Call, at: Reference) -> None:
        """``partial(f, …)`` binds as far as it goes."""
        values = self.inference.evaluate(node.args[0], at.scope)
        if not is_known(values):
            self.result.unknown += 1
            return
        rest = ast.Constant(value=None)
        spread = [*node.keywords, ast.keyword(arg=None, value=rest)]
        call = ast.Call(func=node.args[0], args=node.args[1:], keywords=spread)
        self._bind(values, call, node, at)

    def _bind(self, values: Sequence[Value], call: ast.Call, node: ast.Call, at: Reference) -> None:
        failed: list[tuple[Value, Signature, str]] = []
        for value in values:
            signature = signature_of(self.inference, value)
            if signature is None:
                self.result.unknown += 1
                return
            reason = mismatch(signature, call)
            if reason is None:
                self.result.checked += 1
                return
            failed.append((value, signature, reason))
        if self._overrides_take(call, at):
            self.result.unknown += 1
            return
        self.result.checked += 1
        value, signature, reason = failed[0]
        site = self._definition(value)
        name = ast.unparse(call.func)
        near = _near(reason, signature, site)
        self._report(
            "calls.binding",
            f"{name}() {_sentence(reason)}",
            at,
            node,
            expected=f"{name}{shown(signature)}" + (f" at {site}" if site else ""),
            found=_written(call),
            near=near,
            next_step=(
                f"see whether {near[0].text} is what was meant"
                if near
                else f"call it as {site.path if site else 'its definition'} declares it"
            ),
        )

    def _overrides_take(self, call: ast.Call, at: Reference) -> bool:
        """Whether the receiver may be of a subclass whose override takes the call."""
        if not isinstance(call.func, ast.Attribute):
            return False
        for receiver in self.inference.evaluate(call.func.value, at.scope):
            if not isinstance(receiver, InstanceValue) or receiver.exact:
                continue
            if self.inference.lineage(receiver.info).is_structural:
                return True
            for derived in self.evidence.subclasses(receiver.info):
                if call.func.attr not in derived.own:
                    continue
                method = derived.methods.get(call.func.attr)
                signature = of_function(method, bound=True) if method else None
                if signature is None or mismatch(signature, call) is None:
                    return True
        return False

    def _definition(self, value: Value) -> Site | None:
        match value:
            case FunctionValue(node=node, scope=scope):
                return scope.module.source.site(node, scope=scope.qualified)
            case ClassValue(info) | InstanceValue(info):
                for one in self.inference.lineage(info).classes:
                    method = one.methods.get("__init__")
                    if method is not None and isinstance(value, ClassValue):
                        return one.scope.module.source.site(method, scope=one.scope.qualified)
                return info.scope.module.source.site(info.node, scope="")
        return None

    # ---------------------------------------------------------------- classes

    def _complete(self, info: ClassInfo, node: ast.AST, at: Reference) -> None:
        """A class that is made or handed out has no abstract method left."""
        lineage = self.inference.lineage(info)
        if not lineage.complete or not lineage.is_abstract_aware:
            return
        self.result.checked += 1
        for position, one in enumerate(lineage.classes):
            for name, method in one.methods.items():
                nearer = lineage.classes[:position]
                abstract = is_decorated(method, "abstractmethod", "abstractproperty")
                if abstract and not any(name in c.own for c in nearer):
                    site = one.scope.module.source.site(method, scope=one.scope.qualified)
                    self._report(
                        "calls.abstract",
                        f"{info.name} has no {name}, which {one.name} demands",
                        at,
                        node,
                        expected=f"{info.name}.{name}, declared abstract at {site}",
                        found="no implementation",
                        near=[Candidate(site, 1.0, name)],
                        next_step=f"implement {name} in {info.name}",
                    )

    def _class(self, node: ast.ClassDef, at: Reference, regions: Sequence[Region]) -> None:
        info = self.inference.class_info(node, at.scope)
        for name, method in info.methods.items():
            header = ast.Pass(lineno=method.lineno, end_lineno=method.body[0].lineno)
            if not touches(header, regions) or not isinstance(method, FUNCTIONS):
                continue
            if overridden(self.inference, info, name) is None:
                continue
            self.result.checked += 1
            misfit = misfit_of(self.evidence, self.pristine, info, name)
            if misfit is not None:
                self._misfit(misfit, at)

    def _misfit(self, misfit: Misfit, at: Reference) -> None:
        base = misfit.base_site
        self._report(
            "calls.override",
            f"{misfit.name} does not fit {base.scope}.{misfit.name}: {misfit.reason}",
            at,
            misfit.node,
            expected=f"{misfit.name}{shown(misfit.base)} at {base}",
            found=f"{misfit.name}{shown(misfit.own)}",
            near=[Candidate(base, 1.0, f"{misfit.name}{shown(misfit.base)}")],
            severity=misfit.severity,
            next_step="take the parameters of the method that is overridden, in its order",
        )

    def _report(
        self,
        code: str,
        message: str,
        at: Reference,
        node: ast.AST,
        *,
        expected: str,
        found: str,
        near: Sequence[Candidate],
        next_step: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        site = at.scope.module.source.site(node, scope=at.scope.qualified)
        self.result.findings.append(
            Finding(
                code=code,
                message=message,
                severity=severity,
                level=LEVEL,
                site=site,
                expected=expected,
                found=found,
                nearest=tuple(near),
                next_step=next_step,
            )
        )


def _sentence(reason: str) -> str:
    """Python's complaint about a binding, as the end of a sentence."""
    if reason.startswith("missing"):
        return f"is {reason}"
    if reason.startswith("got"):
        return reason
    if reason.startswith(("too many", "multiple")):
        return f"gets {reason}"
    return f"does not bind: {reason}"


def _near(reason: str, signature: Signature, site: Site | None) -> list[Candidate]:
    """The parameters that an unknown keyword may have meant."""
    found = re.search(r"unexpected keyword argument '(\w+)'", reason)
    if found is None or site is None:
        return []
    names = [p.name for p in signature.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    close = difflib.get_close_matches(found[1], names, n=3, cutoff=0.5)
    ratio = difflib.SequenceMatcher
    return [Candidate(site, round(ratio(None, found[1], n).ratio(), 2), n) for n in close]


def _written(call: ast.Call) -> str:
    text = " ".join(ast.unparse(call).split())
    return text if len(text) <= 200 else f"{text[:199]}…"
