"""Examples of dispatch sites, one per form in which SGLang writes them."""

from __future__ import annotations

from inventory.model import Case

_SPEC = """\
class SpeculativeAlgorithm(Enum):
    DFLASH = auto()
    EAGLE = auto()
    EAGLE3 = auto()
    NONE = auto()
    def is_none(self) -> bool:
        return self == SpeculativeAlgorithm.NONE
    def is_dflash(self) -> bool:
        return self == SpeculativeAlgorithm.DFLASH
    def is_eagle(self) -> bool:
        return self in (SpeculativeAlgorithm.EAGLE, SpeculativeAlgorithm.EAGLE3)
    def supports_tree(self) -> bool:
        return self.is_eagle() or self.is_dflash()

class SpecInputType(IntEnum):
    DFLASH_VERIFY = auto()

class SpecInput:
    def is_verify_input(self) -> bool:
        return self.spec_input_type in {SpecInputType.DFLASH_VERIFY}

class EagleVerifyInput(SpecInput): ...
"""
CASES: tuple[Case, ...] = ()
