# SPDX-License-Identifier: Apache-2.0
"""Writes python/strata/_train_options.py, the options of strata-train as Python types, from the option table.

usage: train_options.py > python/strata/_train_options.py       (with the package of a build tree on PYTHONPATH)
"""

import json
import re

import torch  # noqa: F401  # whose libraries the extension needs

from strata._train import options
from strata.errors import in_python

_TYPES = {
    "FLOAT": "float",
    "INT|all": "int | str",
    "INT,...": "Sequence[int]",
    "UINT,...": "Sequence[int]",
    "INT[,...]": "int | Sequence[int]",
    "BYTES": "int | str",
    "auto,BYTES": "int | str",
}
_PATHS = ("output", "resume", "init_from", "trace", "config", "targets")
_HEAD = '''# SPDX-License-Identifier: Apache-2.0
# python/bindings/train_options.py wrote this file from src/train/train_options.cpp. Do not edit it.
"""Types, defaults and help of the options of strata.train()."""

import os
from collections.abc import Sequence
from typing import Any, Literal, TypedDict
'''


def type_of(name: str, hint: str, default: object) -> str:
    if name in _PATHS:
        return "str | os.PathLike[str] | bool" if isinstance(default, bool) else "str | os.PathLike[str]"
    if isinstance(default, bool):
        return "bool"
    if hint in _TYPES:
        return _TYPES[hint]
    if re.fullmatch(r"INT|UINT|-?\d*\.\.-?\d*", hint):
        return "int"
    if re.fullmatch(r"\{[\w,-]+\}", hint):
        return f"Literal[{', '.join(json.dumps(word) for word in hint[1:-1].split(','))}]"
    return "str"


def written() -> str:
    """The contents of the file."""
    rows = [(name.replace("-", "_"), hint, json.loads(default), in_python(text)) for name, hint, default, text in options()]
    rows = [row for row in rows if row[0] != "graph"]  # train() has it as a parameter of its own
    rows.append(("config", "TEXT", "", "TOML file with the same names as the options"))
    types = [f"    {name}: {type_of(name, hint, default)} | None" for name, hint, default, _ in rows]
    values = [
        f"    {json.dumps(name)}: ({None if default in ('', []) else default!r}, {json.dumps(text, ensure_ascii=False)}),"
        for name, _, default, text in rows
    ]
    return "\n".join(
        [_HEAD, "", "class TrainOptions(TypedDict, total=False):", *types, "", "", "OPTIONS: dict[str, tuple[Any, str]] = {", *values, "}", ""]
    )


if __name__ == "__main__":
    print(written(), end="")
