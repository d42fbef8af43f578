# SPDX-License-Identifier: Apache-2.0
"""Loads weights of models over several types into PyTorch Geometric, by the snippet of docs/training.md, and compares the outputs:

    pyg_types_test.py EXPORTER DOC
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

NODE_TYPES = ["author", "paper", "venue"]
OFFSETS = [0, 20, 50, 60]
EDGE_TYPES = [
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "rev_writes", "author"),
    ("venue", "never", "author"),
    ("venue", "shows", "paper"),
]


def logits_by_type(model, x, edge_index, relations):
    """Of HeteroConv: by original id; types into which no relation goes have no rows, which count as zeros."""
    rows = dict(zip(NODE_TYPES, x.tensor_split(OFFSETS[1:-1])))
    edges = {}
    for number, (source, name, target) in enumerate(EDGE_TYPES):
        starts = torch.tensor([[OFFSETS[NODE_TYPES.index(source)]], [OFFSETS[NODE_TYPES.index(target)]]])
        edges[source, name, target] = edge_index[:, relations == number] - starts
    for i, conv in enumerate(model.convs):
        out = conv(rows, edges)
        if i == len(model.convs) - 1 and hasattr(model, "lin"):
            return model.lin(torch.cat([out.get(kind, torch.zeros(len(rows[kind]), conv.out_channels)) for kind in NODE_TYPES]))
        width = next(iter(out.values())).shape[1]
        rows = {kind: out.get(kind, torch.zeros(len(rows[kind]), width)) for kind in NODE_TYPES}
        if i < len(model.convs) - 1:
            rows = {kind: value.relu() for kind, value in rows.items()}
    return torch.cat([rows[kind] for kind in NODE_TYPES])


def logits_at_once(model, x, edge_index, relations):
    for i, conv in enumerate(model.convs):
        x = conv(x, edge_index, relations)
        if i < len(model.convs) - 1:
            x = x.relu()
    return x


def main(exporter, document):
    snippets = re.findall(r"```python\n(.*?)```", pathlib.Path(document).read_text(), re.DOTALL)
    (snippet,) = (text for text in snippets if "safe_open" in text)
    for kind in ("rgcn", "rgcn-bases", "rsage", "rgat", "rgat-4,2,3", "hgt"):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), torch.no_grad():
            subprocess.run([exporter, kind, folder], check=True)
            pathlib.Path("runs").mkdir()
            pathlib.Path("runs/last").symlink_to(folder)
            expected = load_file("expected.safetensors")
            names = {"node_types": NODE_TYPES, "edge_types": EDGE_TYPES}
            exec(snippet, names)
            by_id = expected["ids"].argsort()
            edge_index = expected["ids"][expected["edge_index"]]
            forward = logits_at_once if kind.startswith("rgcn") else logits_by_type
            logits = forward(names["model"].eval(), expected["x"][by_id], edge_index, expected["relations"])
            error = (logits - expected["logits"][by_id]).abs().max().item()
            print(f"{kind}: largest difference {error:.2e}")
            assert logits.shape == expected["logits"].shape
            assert error < 1e-5, f"{kind}: PyG's outputs differ by {error}"


main(*sys.argv[1:])
