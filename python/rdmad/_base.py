# SPDX-License-Identifier: MIT
"""The class that all errors are of."""
from __future__ import annotations

import typing


class Error(Exception):
    """What went wrong, in the library's sentence: what object, which limit, used and asked, what to do next.

    There is a subclass for each RDMAD_E_* of abi.h: RDMAD_E_LEASE_EXPIRED is rdmad.LeaseExpiredError.

    code      the number, RDMAD_E_*
    errname   its name, "RDMAD_E_LIMIT"
    general   the code's general text; str() is the sentence
    outcome   of a transfer, what became of its target (rdmad.Outcome); else None
    """

    code: int = 0
    errname: str = ""
    general: str = ""
    outcome: typing.Optional[int] = None

    def __init__(self, sentence: str = "") -> None:
        self.sentence = sentence or self.general
        super().__init__(self.sentence)

    def __str__(self) -> str:
        return self.sentence
