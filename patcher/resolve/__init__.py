"""A static resolver over a tree: what names, attributes and calls stand for, without importing.

It needs nothing but the standard library and the tree, so that it can run wherever Python does.
:mod:`~patcher.resolve.naming` and :mod:`~patcher.resolve.calling` are the two checks built on it.
"""
