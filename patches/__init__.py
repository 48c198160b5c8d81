"""Patch sets: one package each, discovered by name."""
