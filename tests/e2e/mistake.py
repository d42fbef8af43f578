# SPDX-License-Identifier: Apache-2.0
"""A row of the tables of typical mistakes."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A line of a shell, typed in a folder that prepare() filled, and how it must be answered."""
    line: str
    says: tuple = ()    # words that must appear
    never: tuple = ()   # words that must not; some never do, see test_mistakes.py
    code: int = 2
