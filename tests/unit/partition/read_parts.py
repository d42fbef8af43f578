# SPDX-License-Identifier: Apache-2.0
"""Reads two partition directories of the same graph (f16, bf16) with h5py and checks what FORMAT.md says."""
import json
import sys

import h5py
import numpy as np


def read(directory):
    with open(f"{directory}/manifest.json") as file:
        manifest = json.load(file)
    original, lists, feat = [], {}, {}
    parts = [h5py.File(f"{directory}/{part['file']}") for part in manifest["parts"]]
    for number, part in enumerate(parts):
        assert part.attrs["format"] in (b"strata-part", "strata-part"), part.attrs["format"]
        assert (part.attrs["version"], part.attrs["part"], part.attrs["num_parts"]) == (1, number, len(parts))
        for dataset in manifest["parts"][number]["datasets"]:
            assert list(part[dataset["name"]].shape) == dataset["shape"], dataset
        original.append(part["/nodes/node/original_id"][:])
    original = np.concatenate(original)
    assert sorted(original) == list(range(manifest["num_nodes"]))
    for number, part in enumerate(parts):
        edges = part["/edges/node__to__node"]
        indptr, indices = edges["indptr"][:], edges["indices"][:]
        rows = part["/nodes/node/feat"]
        values = rows[:]
        if rows.attrs["dtype"] == b"bf16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        for row in range(len(indptr) - 1):
            node = int(original[manifest["offsets"][number] + row])
            lists[node] = original[indices[indptr[row]:indptr[row + 1]]].tolist()
            feat[node] = values[row]
        train = part["/nodes/node/split/train/row"][:]
        assert np.all(np.diff(original[manifest["offsets"][number] + train]) > 0)
    return lists, np.stack([feat[v] for v in range(len(feat))])


half_lists, half = read(sys.argv[1])
brain_lists, brain = read(sys.argv[2])
assert half.dtype == np.float16 and brain.dtype == np.float32
assert half_lists == brain_lists
assert all(neighbors == sorted(neighbors) for neighbors in half_lists.values())
assert np.allclose(half.astype(np.float32), brain, rtol=0.01, atol=0.01)
