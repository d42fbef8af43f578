# SPDX-License-Identifier: Apache-2.0
"""WholeGraph's sampling and gathering on the GPU, PyG's SAGEConv."""
import torch

import training


def imports():
    try:
        import pylibwholegraph.torch as wholegraph
        from torch_geometric.nn import SAGEConv
    except ImportError as error:
        raise training.Missing(f'{error}; pip install pylibwholegraph-cu13 torch_geometric') from error
    return wholegraph, SAGEConv


def shared_tensor(wholegraph, communicator, array, location):
    """A tensor that all ranks of the host fill with their own rows of `array`."""
    source = torch.from_numpy(array)
    strides = [source.shape[1], 1] if source.dim() == 2 else [1]
    tensor = wholegraph.create_wholememory_tensor(communicator, 'chunked', location, list(source.shape), source.dtype, strides)
    local, first = tensor.get_local_tensor(host_view=location == 'cpu')
    local.copy_(source[first:first + local.shape[0]])
    communicator.barrier()
    return tensor


def run(job, graph):
    wholegraph, SAGEConv = imports()
    if job.device.type != 'cuda':
        raise training.Missing('WholeGraph needs a GPU; give --gpus 1')
    communicator, _ = wholegraph.init_torch_env_and_create_wm_comm(job.rank, job.ranks, job.rank, job.ranks)
    structure = wholegraph.GraphStructure()
    structure.set_csr_graph(shared_tensor(wholegraph, communicator, graph.indptr, 'cuda'),
                            shared_tensor(wholegraph, communicator, graph.indices, 'cuda'))
    features = shared_tensor(wholegraph, communicator, graph.features, 'cpu' if job.host_features else 'cuda')
    labels, nodes = torch.from_numpy(graph.labels).to(job.device), torch.from_numpy(graph.train)

    def layer_over(edges, num_targets):
        return lambda convolution, x: convolution((x, x[:num_targets]), edges.long())

    def batches(epoch, clock):
        for seeds in job.seeds(nodes, epoch):
            start = clock.now()
            seeds = seeds.to(job.device)
            found, edges, _, _ = structure.multilayer_sample_without_replacement(seeds, job.fanouts)
            start = clock.add('sample', start)
            x = features.gather(found[0])
            clock.add('gather', start)
            yield x, [layer_over(e, len(targets)) for e, targets in zip(edges, found[1:])], labels[seeds]

    model = training.Sage([SAGEConv(a, b) for a, b in training.widths(job, graph.features.shape[1], graph.classes)], job.dropout)
    records = training.train(job, model, batches)
    wholegraph.finalize()
    return records
