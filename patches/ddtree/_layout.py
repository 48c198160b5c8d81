"""Where the modules of the set go; the patch that adds them and the set's own checks read this."""

HOME = "sglang/srt/speculative"
"""Folder of SGLang's speculative algorithms, and of ours."""

MODULES = (
    "ddtree_reference",
    "ddtree_tree",
    "ddtree_triton",
    "ddtree_head",
    "ddtree_accept",
    "ddtree_info",
    "ddtree_args",
    "ddtree_worker",
)
"""Modules that are rendered from ``templates/ddtree``."""
