# SPDX-License-Identifier: Apache-2.0
"""Files that are there as a whole, or not at all."""

from __future__ import annotations

import os
import pathlib
import tempfile

from .run import ReportError


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Writes beside the name, and renames. Raises ReportError."""
    target = pathlib.Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o644)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise ReportError(f"cannot write {target}: {error.strerror}", "Name a file in a folder that is there and that this user may write.") from error
