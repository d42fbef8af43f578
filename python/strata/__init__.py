# SPDX-License-Identifier: Apache-2.0
"""Graph neural networks on graphs that outgrow one GPU and one machine.

    import strata

    graph = strata.load("parts")
    loader = strata.NeighborLoader(graph, num_neighbors=[15, 10, 5], input_nodes="train", batch_size=1024, shuffle=True)
    for batch in loader:
        out = model(batch.x, batch.edge_index)[: batch.batch_size]

or, in two calls, what the programs do, with a graph in memory or in files:

    result = strata.train(data, model="sage", fanouts=[15, 10, 5], epochs=10)
    logits = strata.predict(result, data)

Importing strata imports neither torch nor torch_geometric; what gives their types does.
"""

import os
from typing import TYPE_CHECKING

# Threads of OpenMP that spin while they wait take the cores of those that load; libgomp reads this when it is loaded, with torch or _core.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from strata import _core
from strata._core import device_count, with_cuda
from strata._missing import attributes_of
from strata._process import init, init_process_group, process, set_log_level
from strata.choosers import ChoiceQuery, NeighborChooser
from strata.errors import CommError, CudaError, InputError, IoError, OutOfMemory, StrataError
from strata.fitting import fit, inference
from strata.graph import Graph, from_tensors, load
from strata.batches import Block, BlockBatch
from strata.links import LinkLoader, LinkNeighborLoader, NegativeSampling
from strata.loaders import NeighborLoader, NodeLoader
from strata.objects import from_dgl, from_networkx, from_pyg, save
from strata.partitioning import convert, info, partition, repartition, verify
from strata.recording import GraphedStep, StepCounts, graphed
from strata.sm_split import SmSplit
from strata.training import Evaluation, Scores, TrainResult, evaluate, plan, predict, report, train
if TYPE_CHECKING:
    from strata.embedding import Embedding  # a module of torch, which importing strata does not import

from strata.unified_tensor import (
    UnifiedTensor,
    enable_unified_device,
    gather_pinned_tensor_rows,
    pin_memory_inplace,
    unified,
)

__version__: str = _core.__version__  # type: ignore[attr-defined]  # stubs leave it out

__all__ = [
    "Block",
    "BlockBatch",
    "ChoiceQuery",
    "CommError",
    "CudaError",
    "Embedding",
    "Evaluation",
    "Graph",
    "GraphedStep",
    "InputError",
    "IoError",
    "LinkLoader",
    "LinkNeighborLoader",
    "NegativeSampling",
    "NeighborChooser",
    "NeighborLoader",
    "NodeLoader",
    "OutOfMemory",
    "Scores",
    "SmSplit",
    "StepCounts",
    "StrataError",
    "TrainResult",
    "UnifiedTensor",
    "__version__",
    "convert",
    "device_count",
    "enable_unified_device",
    "evaluate",
    "fit",
    "from_dgl",
    "from_networkx",
    "from_pyg",
    "from_tensors",
    "gather_pinned_tensor_rows",
    "graphed",
    "inference",
    "info",
    "init",
    "init_process_group",
    "load",
    "partition",
    "pin_memory_inplace",
    "plan",
    "predict",
    "process",
    "repartition",
    "report",
    "save",
    "set_log_level",
    "train",
    "unified",
    "verify",
    "with_cuda",
]

_SPLITS = "it is PyG's: from_pyg() takes the train, validation and test data that it makes, and LinkNeighborLoader their edge_label_index"
_TYPES = "it is PyG's: strata.from_pyg(data) makes a graph of a HeteroData, which strata.NeighborLoader takes"
_OTHER_SAMPLERS = "derive a sampler from strata.NeighborChooser, or take PyG's loader with strata.pyg.stores_of(graph)"

if not TYPE_CHECKING:
    _without = attributes_of(
        __name__,
        {
            "DataLoader": "NeighborLoader and NodeLoader make batches in threads of C++; strata.dgl has DGL's DataLoader",
            "RandomLinkSplit": _SPLITS,
            "EdgeDataLoader": "strata.LinkLoader makes batches of blocks for pairs of nodes",
            "Data": "it is PyG's: strata.from_pyg(data) makes a graph of it",
            "NeighborSampler": "NodeLoader gives batch.adjs as PyG's older NeighborSampler does; strata.dgl has DGL's",
        }
        | dict.fromkeys(("HeteroData", "HGTLoader"), _TYPES)
        | dict.fromkeys(
            ("ShaDowKHopSampler", "ClusterData", "ClusterLoader", "GraphSAINTSampler", "ImbalancedSampler", "RandomNodeLoader"),
            _OTHER_SAMPLERS,
        ),
    )

    def __getattr__(name):
        if name == "Embedding":
            from strata.embedding import Embedding

            return Embedding
        return _without(name)
