# SPDX-License-Identifier: Apache-2.0
"""Plain PyG: NeighborLoader samples on the CPU, the features lie on the GPU or in pinned host memory."""
import torch

import training


def imports():
    try:
        import torch_geometric.typing as typing
        from torch_geometric.data import Data
        from torch_geometric.loader import NeighborLoader
        from torch_geometric.nn import SAGEConv
    except ImportError as error:
        raise training.Missing(f'{error}; pip install torch_geometric') from error
    if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        raise training.Missing('the sampling of PyG needs pyg-lib or torch-sparse')
    return Data, NeighborLoader, SAGEConv


def edge_index_of(graph):
    degrees = torch.from_numpy(graph.indptr).diff()
    return torch.stack([torch.from_numpy(graph.indices), torch.repeat_interleave(torch.arange(len(degrees)), degrees)])


def run(job, graph):
    Data, NeighborLoader, SAGEConv = imports()
    features, labels = torch.from_numpy(graph.features), torch.from_numpy(graph.labels).to(job.device)
    pinned = job.host_features and job.device.type == 'cuda'
    features = (features.pin_memory() if pinned else features) if job.host_features else features.to(job.device)
    data = Data(edge_index=edge_index_of(graph), num_nodes=len(graph.labels))
    nodes = torch.from_numpy(graph.train)

    def batches(epoch, clock):
        # A loader takes one list of seeds and cuts it into batches itself.
        mine = list(job.seeds(nodes, epoch))
        loader = NeighborLoader(data, job.fanouts, input_nodes=torch.cat(mine), batch_size=max(map(len, mine)),
                                num_workers=job.workers, persistent_workers=False)
        start = clock.now()
        for batch in loader:
            start = clock.add('sample', start)
            edges = batch.edge_index.to(job.device)
            x = features[batch.n_id.to(features.device)].to(job.device, non_blocking=True)
            clock.add('gather', start)
            seeds = batch.n_id[:batch.batch_size].to(job.device)
            last = len(job.fanouts) - 1
            layers = [lambda convolution, x, end=i == last: convolution(x, edges)[:len(seeds) if end else None]
                      for i in range(last + 1)]
            yield x, layers, labels[seeds]
            start = clock.now()

    model = training.Sage([SAGEConv(a, b) for a, b in training.widths(job, graph.features.shape[1], graph.classes)], job.dropout)
    return training.train(job, model, batches)
