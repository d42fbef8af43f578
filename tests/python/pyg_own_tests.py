# SPDX-License-Identifier: Apache-2.0
"""PyG's own tests of its NeighborLoader, with Strata's in its place. Runs on demand; no test of the suite.

    PYG_SOURCE=checkout python tests/python/pyg_own_tests.py [arguments of pytest]

PYG_SOURCE is a checkout of pytorch_geometric in the version that is installed (`git clone --branch 2.8.0 ...`), of which
test/loader/test_neighbor_loader.py is run; pytest must be installed. Each loader is strata.NeighborLoader on a graph of the
test's Data. What the tests look at beside it and a graph of Strata does not hold (features of edges, integers as features) is
looked up by n_id and e_id, as a user's transform would.
"""

import os
import pathlib
import sys
import warnings

import torch
import torch_geometric.loader
import torch_geometric.testing
import torch_geometric.typing
from torch_geometric.data import Data

import strata

# What does not apply, and why; the other tests must pass.
NOT_MEANT = {
    "hetero": "graphs have one type of nodes and one of edges",
    "temporal": "times are not sampled by",
    "test_neighbor_loader_input_id": "a graph of several types; test_loaders.py looks at input_id",
    "induced": "only the sampled edges are in a batch",
    "bidirectional": "only the sampled edges are in a batch",
    "test_custom_neighbor_loader": "PyG's own loader on stores of its own; test_pyg_stores.py has it on Strata's",
    "test_pyg_lib_and_torch_sparse": "compares two samplers of others",
    "test_neighbor_loader_with_tensor_frame": "needs torch_frame, whose columns are no rows of numbers",
}


def graph_of(data, weights):
    x = torch.as_tensor(data.x) if data.x is not None else None
    if x is not None:
        x = x.view(x.size(0), -1).float().cpu()
    return strata.from_tensors(data.edge_index.cpu(), x, num_nodes=data.num_nodes, edge_weight=weights)


class NeighborLoader(strata.NeighborLoader):
    """PyG's constructor, on PyG's Data."""

    def __init__(self, data, num_neighbors, input_nodes=None, weight_attr=None, **options):
        assert isinstance(data, Data), "a Data object"
        weights = None if weight_attr is None else data[weight_attr]
        self._data = data
        graph = graph_of(data, weights)
        super().__init__(graph, num_neighbors, input_nodes, transform=self._complete, weight_attr=weight_attr, **options)

    def _complete(self, batch):
        x = self._data.x
        if isinstance(x, torch.Tensor):
            assert torch.equal(batch.x.view(-1).cpu(), x[batch.n_id.cpu()].reshape(-1).float().cpu()), "rows of other nodes"
            batch.x = batch.x.view(-1, *x.shape[1:]).to(x.dtype)
        for name in ("edge_attr", "edge_weight"):
            if name in self._data:
                batch[name] = self._data[name][batch.e_id.to(self._data[name].device)]
        return batch


def main():
    import pytest

    source = pathlib.Path(os.environ.get("PYG_SOURCE", ""))
    test = source / "test/loader/test_neighbor_loader.py"
    if not test.is_file():
        sys.exit(f"there is no {test}; PYG_SOURCE names a checkout of pytorch_geometric")
    warnings.simplefilter("ignore")
    # The tests leave themselves out without PyG's samplers, which are not asked for here.
    for name in ("WITH_PYG_LIB", "WITH_TORCH_SPARSE", "WITH_WEIGHTED_NEIGHBOR_SAMPLE", "WITH_EDGE_TIME_NEIGHBOR_SAMPLE"):
        setattr(torch_geometric.typing, name, True)
    torch_geometric.testing.onlyNeighborSampler = lambda function: function
    torch_geometric.testing.withPackage = lambda *packages: lambda function: function
    torch_geometric.loader.NeighborLoader = NeighborLoader
    left_out = []

    class Selection:
        def pytest_collection_modifyitems(self, items):
            chosen = []
            for item in items:
                reasons = [reason for word, reason in NOT_MEANT.items() if word in item.name]
                left_out.extend((item.name, reason) for reason in reasons[:1])
                if not reasons:
                    chosen.append(item)
            items[:] = chosen

    status = pytest.main(
        [str(test), "-q", "--rootdir", str(source), "-p", "no:cacheprovider", "-o", "addopts=", *sys.argv[1:]], plugins=[Selection()]
    )
    print(f"{len(left_out)} do not apply:")
    for name, reason in left_out:
        print(f"  {name}: {reason}")
    return status


if __name__ == "__main__":
    sys.exit(main())
