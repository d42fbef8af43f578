# SPDX-License-Identifier: Apache-2.0
"""What a new user does first: a Data of PyTorch Geometric in memory, a trained model, logits. Prints what rank 0 found, as JSON.

    first_hour.py OUTPUT BATCH_SIZE
"""

import json
import sys
import time

begin = time.perf_counter()
import strata  # noqa: E402

imported = time.perf_counter() - begin

import torch  # noqa: E402
from torch_geometric.data import Data  # noqa: E402

torch.manual_seed(1)
nodes, classes = 20_000, 10
y = torch.arange(nodes) * classes // nodes
sources = torch.randint(nodes, (100_000,))
targets = (sources + torch.randint(-50, 50, sources.shape)).clamp(0, nodes - 1)
part = torch.rand(nodes)
data = Data(
    x=torch.randn(nodes, 32) + torch.nn.functional.one_hot(y, 32),
    edge_index=torch.stack([torch.cat([sources, targets]), torch.cat([targets, sources])]),
    y=y,
    train_mask=part < 0.6,
    val_mask=(part >= 0.6) & (part < 0.8),
    test_mask=part >= 0.8,
)

result = strata.train(data, model="sage", fanouts=[10, 5], epochs=2, hidden=32, batch_size=int(sys.argv[2]), output=sys.argv[1], progress="off")
logits = strata.predict(result, data)
if strata.process().rank == 0:
    own = (logits[data.test_mask].argmax(1) == y[data.test_mask]).float().mean()
    found = {"import": imported, "losses": [record["loss"] for record in result.records_of("epoch")]}
    print(json.dumps(found | {"test": result.test.accuracy, "own": float(own), "seconds": time.perf_counter() - begin}))
