# SPDX-License-Identifier: Apache-2.0
"""PyG's own tests of its loaders of nodes and links, with Strata's in their place. Runs on demand; no test of the suite.

    PYG_SOURCE=checkout python tests/python/pyg_own_tests.py [arguments of pytest]

PYG_SOURCE is a checkout of pytorch_geometric in the version that is installed (`git clone --branch 2.8.0 ...`), of which
test/loader/test_neighbor_loader.py and test_link_neighbor_loader.py are run; pytest must be installed. Each loader is Strata's on
strata.from_pyg() of the test's Data or HeteroData, on the CPU, and nothing else; loaders of links leave the links in, as PyG's do.
"""

import os
import pathlib
import sys
import warnings

import torch_geometric.loader
import torch_geometric.testing
import torch_geometric.typing
from torch_geometric.data import HeteroData

import strata

# What does not apply, and why; the other tests must pass.
NOT_MEANT = {
    "temporal": "times are not sampled by",
    "test_custom_": "PyG's own loader on stores of its own; test_pyg_stores.py has it on Strata's",
    "test_hetero_neighbor_loader_basic[bidirectional": "batches of several types have the edges that were sampled",
    "test_hetero_neighbor_loader_basic[induced": "batches of several types have the edges that were sampled",
    "test_hetero_neighbor_loader_on_karate[bidirectional": "batches of several types have the edges that were sampled",
    "test_hetero_neighbor_loader_on_karate[induced": "batches of several types have the edges that were sampled",
    "test_homo_link_neighbor_loader_no_edges": "the Data has no edge_index",
    "test_hetero_link_neighbor_loader_no_edges": "the HeteroData has no relation",
    "test_hetero_link_neighbor_loader_basic[None-bidirectional": "batches of several types have the edges that were sampled",
    "test_hetero_link_neighbor_loader_basic[1.0-bidirectional": "batches of several types have the edges that were sampled",
    "test_hetero_link_neighbor_loader_loop[bidirectional": "batches of several types have the edges that were sampled",
    "-True]": "seeds of a batch share the nodes that they have in common, so batches are not disjoint",
    "test_pyg_lib_and_torch_sparse": "compares two samplers of others",
    "test_neighbor_loader_with_tensor_frame": "needs torch_frame, whose columns are no rows of numbers",
}


class NeighborLoader(strata.NeighborLoader):
    """PyG's constructor, on PyG's Data and HeteroData."""

    def __init__(self, data, num_neighbors, input_nodes=None, weight_attr=None, **options):
        is_typed = isinstance(data, HeteroData)  # whose edges have weights by their name
        weights = {} if weight_attr is None or is_typed else {"edge_weight": data[weight_attr]}
        super().__init__(strata.from_pyg(data, **weights), num_neighbors, input_nodes, weight_attr=weight_attr, **options)

    def __repr__(self):
        return "NeighborLoader()"  # as the tests want it


class LinkNeighborLoader(strata.LinkNeighborLoader):
    """The same of links."""

    def __init__(self, data, num_neighbors, edge_label_index=None, edge_label=None, **options):
        super().__init__(strata.from_pyg(data), num_neighbors, edge_label_index, edge_label, exclude_seed_edges=False, **options)

    def __repr__(self):
        return "LinkNeighborLoader()"


def main():
    import pytest

    source = pathlib.Path(os.environ.get("PYG_SOURCE", ""))
    tests = [source / "test/loader" / name for name in ("test_neighbor_loader.py", "test_link_neighbor_loader.py")]
    if not all(test.is_file() for test in tests):
        sys.exit(f"there is no {tests[0]} or {tests[1].name}; PYG_SOURCE names a checkout of pytorch_geometric")
    warnings.simplefilter("ignore")
    # The tests leave themselves out without PyG's samplers, which are not asked for here.
    for name in ("WITH_PYG_LIB", "WITH_TORCH_SPARSE", "WITH_WEIGHTED_NEIGHBOR_SAMPLE", "WITH_EDGE_TIME_NEIGHBOR_SAMPLE"):
        setattr(torch_geometric.typing, name, True)
    torch_geometric.testing.onlyNeighborSampler = lambda function: function
    torch_geometric.testing.withPackage = lambda *packages: lambda function: function
    torch_geometric.loader.NeighborLoader = NeighborLoader
    torch_geometric.loader.LinkNeighborLoader = LinkNeighborLoader
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
        [*map(str, tests), "-q", "--rootdir", str(source), "-p", "no:cacheprovider", "-o", "addopts=", *sys.argv[1:]], plugins=[Selection()]
    )
    print(f"{len(left_out)} do not apply:")
    for name, reason in left_out:
        print(f"  {name}: {reason}")
    return status


if __name__ == "__main__":
    sys.exit(main())
