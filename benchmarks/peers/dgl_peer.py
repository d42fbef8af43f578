# SPDX-License-Identifier: Apache-2.0
"""DGL: its DataLoader samples on the GPU (with UVA if features stay on the host) or on the CPU."""
import torch

import training


def imports():
    try:
        import dgl
        from dgl.nn import SAGEConv
    except (ImportError, FileNotFoundError, OSError) as error:
        raise training.Missing(f'{error}; pip install dgl, in a version that fits torch') from error
    return dgl, SAGEConv


def run(job, graph):
    dgl, SAGEConv = imports()
    on_gpu = job.device.type == 'cuda'
    # DGL's "csc" is ours: in-neighbors by node.
    structure = dgl.graph(('csc', (torch.from_numpy(graph.indptr), torch.from_numpy(graph.indices), torch.empty(0, dtype=torch.int64))))
    features, labels = torch.from_numpy(graph.features), torch.from_numpy(graph.labels).to(job.device)
    if on_gpu:
        structure = structure.to(job.device)
        features = features.pin_memory() if job.host_features else features.to(job.device)
    sampler = dgl.dataloading.NeighborSampler(list(reversed(job.fanouts)))   # DGL lists them from the inputs
    nodes = torch.from_numpy(graph.train)

    def batches(epoch, clock):
        for seeds in job.seeds(nodes, epoch):
            start = clock.now()
            inputs, seeds, blocks = sampler.sample_blocks(structure, seeds.to(structure.device))
            start = clock.add('sample', start)
            if on_gpu and job.host_features:
                x = dgl.utils.gather_pinned_tensor_rows(features, inputs)
            else:
                x = features[inputs]
            clock.add('gather', start)
            layers = [lambda convolution, x, block=block: convolution(block, (x, x[:block.num_dst_nodes()])) for block in blocks]
            yield x, layers, labels[seeds]

    sizes = training.widths(job, graph.features.shape[1], graph.classes)
    model = training.Sage([SAGEConv(a, b, 'mean') for a, b in sizes], job.dropout)
    return training.train(job, model, batches)
