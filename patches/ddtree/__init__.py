"""DDTree for SGLang: tree verification over DFLASH's drafter (arXiv 2604.12989).

``DDTREE`` becomes a speculative algorithm of its own. It answers ``is_dflash()``, so every place
that serves DFLASH serves it too; the few that must differ are patched, and ``ledger.toml`` says
for each place which of the two it is.
"""

from patcher.patchset import PatchSet, Requirement
from patcher.probe import Fact, HasFile
from patches.ddtree._layout import HOME, MODULES

_PACKAGE = r"sglang/srt/(?!speculative/dflash|models/dflash).*"

SET = PatchSet(
    name="ddtree",
    version="1",
    title="DDTree tree verification for DFLASH drafters",
    manifest=f"{HOME}/_ddpatch_manifest.py",
    requires=(
        Requirement(
            probe=Fact("algorithms", {"role": "member", "name": "DFLASH"}),
            otherwise="this release has no DFLASH, and DDTree is built on its drafter "
            "(SGLang has it since 0.5.11)",
        ),
    ),
    dispatch=(
        {"path": _PACKAGE, "on": "DFLASH"},
        {"path": _PACKAGE, "symbol": "DFlash.*"},
        {
            "path": _PACKAGE,
            "family": "input-type",
            "symbol": r"(?i).*verify.*",
            "kind": "(?!construction|definition|reference).*",
        },
        {"path": _PACKAGE, "family": "topk", "symbol": r".*eagle_topk|spec_topk"},
        {"path": r"sglang/srt/.*attention.*", "family": "topk"},
    ),
    shows=(
        *(HasFile(f"{HOME}/{module}.py") for module in MODULES),
        Fact("algorithms", {"role": "member", "name": "DDTREE"}, count=1),
        Fact("algorithms", {"role": "predicate", "name": "is_ddtree", "on": ("DDTREE",)}),
        Fact("algorithms", {"role": "predicate", "name": "is_dflash", "on": ("DFLASH", "DDTREE")}),
        Fact("arguments", {"argument": "speculative_ddtree_budget", "role": "declaration"}),
        Fact("arguments", {"argument": "speculative_ddtree_budget", "role": "option"}),
        Fact("dispatch", {"symbol": "is_ddtree", "scope": "SpeculativeAlgorithm.create_worker"}),
        Fact("dispatch", {"symbol": "DDTREE", "kind": "comparison"}),
    ),
    launch=(
        "python -m sglang.launch_server --model-path MODEL --speculative-algorithm DDTREE "
        "--speculative-draft-model-path DRAFT --speculative-ddtree-budget 31 "
        "--attention-backend triton"
    ),
)
