"""Jinja2 templates of the modules, kernels and reports that ddpatch renders."""
