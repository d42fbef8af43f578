"""Runs the snippet of docs/pyg.md on models that Strata wrote and compares the predictions:  pyg_test.py EXPORTER DOC"""

import contextlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import types

SKIPPED = 77

try:
    import torch
    import torch_geometric  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)

TYPES = {"F32": torch.float32, "I64": torch.int64}


def read_plainly(path):
    """The format as its specification says, for where the safetensors package is missing."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            raw = bytearray(data[begin:end])
            tensors[name] = torch.frombuffer(raw, dtype=TYPES[entry["dtype"]]).view(entry["shape"])
    return tensors


try:
    from safetensors.torch import load_file
except ImportError:
    load_file = read_plainly
    package, module = types.ModuleType("safetensors"), types.ModuleType("safetensors.torch")
    module.load_file = read_plainly
    package.torch = module
    sys.modules.update({"safetensors": package, "safetensors.torch": module})


def main(exporter, document):
    snippet = re.search(r"```python\n(.*?)```", pathlib.Path(document).read_text(), re.DOTALL).group(1)
    for kind in ("sage", "gcn"):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), torch.no_grad():
            subprocess.run([exporter, kind, folder], check=True)
            expected = load_file("expected.safetensors")
            names = {"x": expected["x"], "edge_index": expected["edge_index"]}
            exec(snippet, names)
            error = (names["logits"] - expected["logits"]).abs().max().item()
            print(f"{kind}: largest difference {error:.2e}")
            assert names["logits"].shape == expected["logits"].shape
            assert error < 1e-5, f"{kind}: PyG's outputs differ by {error}"


main(*sys.argv[1:])
