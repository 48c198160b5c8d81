"""Settings of the DDTREE tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, settings

# Read when a kernel is decorated, so it must be there before the first import of triton.
os.environ["TRITON_INTERPRET"] = "1"

# A kernel under the interpreter is too slow to shrink; the failing draft is printed whole.
settings.register_profile(
    "ddtree",
    deadline=None,
    derandomize=True,
    print_blob=True,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
settings.load_profile("ddtree")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes many seconds; `make test-all` runs it too")
