# SPDX-License-Identifier: Apache-2.0
"""Runs the snippet of docs/getting-started.md that makes the model, on models that Strata wrote, and compares the predictions:

    pyg_test.py EXPORTER DOC
"""

import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77

try:
    import torch
    import torch_geometric  # noqa: F401
    from safetensors.torch import load_file
except ImportError as error:
    print(f"-- skipped: 1 of 1 cases: {error}")
    sys.exit(SKIPPED)

def main(exporter, document):
    snippets = re.findall(r"```python\n(.*?)```", pathlib.Path(document).read_text(), re.DOTALL)
    (snippet,) = (text for text in snippets if "safe_open" in text)
    for kind in ("sage", "sage-max", "gcn", "gat", "gat-4-residual", "gat-2,8,3", "gat-8,4,2-residual", "gin"):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), torch.no_grad():
            subprocess.run([exporter, kind, folder], check=True)
            pathlib.Path("runs").mkdir()
            pathlib.Path("runs/last").symlink_to(folder)
            expected = load_file("expected.safetensors")
            names = {"x": expected["x"], "edge_index": expected["edge_index"]}
            exec(snippet, names)
            error = (names["logits"] - expected["logits"]).abs().max().item()
            print(f"{kind}: largest difference {error:.2e}")
            assert names["logits"].shape == expected["logits"].shape
            assert error < 1e-5, f"{kind}: PyG's outputs differ by {error}"


main(*sys.argv[1:])
