# SPDX-License-Identifier: Apache-2.0
"""A rank of test_dgs.py, for mini-batches of several hops: runs scenarios, as dgs_of_rank.py does."""

import numpy
import torch
from dgs_of_rank import as_chunks, device, main, make, num_gpus, refuse, same

import strata.dgs
from strata.nn import GATConv, SAGEConv

NODES, COLUMNS, CLASSES = 500, 12, 5
FANOUTS = [4, 7, 5]  # of the seeds last
ops = torch.ops.dgs_ops


class Given:
    """A random graph, as tensors and in ChunkTensors."""

    def __init__(self, id_type=torch.long, columns=COLUMNS):
        generator = torch.Generator().manual_seed(11)
        degrees = torch.randint(0, 20, (NODES,), generator=generator)
        degrees[::9] = 0
        self.indptr = torch.cat([torch.zeros(1, dtype=torch.long), degrees.cumsum(0)])
        self.indices = torch.randint(0, NODES, (int(self.indptr[-1]),), generator=generator)
        self.probs = torch.rand(len(self.indices), generator=generator) + 0.01
        self.features = torch.randn(NODES, columns, generator=generator)
        self.chunks = as_chunks(self.indptr.to(id_type), self.indices.to(id_type), self.probs)
        self.rows = make(self.features, self.features.nbytes // 3)

    def sample(self, seeds, weighted=False, **options):
        indptr, indices, probs = self.chunks
        seeds = seeds.to(device())
        return strata.dgs.sample_blocks(seeds, indptr, indices, FANOUTS, probs if weighted else None, **options)


def seeds_of(count, seed=0):
    return torch.randperm(NODES, generator=torch.Generator().manual_seed(seed))[:count]


def by_operators(given, seeds, weighted):
    """(nodes, [(sources, destinations) ids of each hop]), hop by hop."""
    indptr, indices, probs = given.chunks
    nodes, edges = seeds.to(device(), given.chunks[1]._CAPI_index(torch.zeros(1, dtype=torch.long)).dtype), []
    for fanout in reversed(FANOUTS):
        if weighted:
            rows, cols = ops._CAPI_sample_neighbors_with_probs_with_chunk_tensor(nodes, indptr, indices, probs, fanout, False)
        else:
            rows, cols = ops._CAPI_sample_neighbors_with_chunk_tensor(nodes, indptr, indices, fanout, False)
        edges.append((cols.cpu().numpy(), rows.cpu().numpy()))
        nodes, _ = ops._CAPI_tensor_relabel([nodes, cols], [])
    return nodes.cpu().numpy(), edges


def ends_of(block):
    """NumPy's positions of sources and destinations."""
    indptr = block.indptr.cpu().numpy()
    assert indptr[0] == 0 and indptr[-1] == block.num_edges and len(indptr) == block.num_dst + 1
    return block.indices.cpu().numpy(), numpy.repeat(numpy.arange(block.num_dst), numpy.diff(indptr))


def samples_blocks_as_the_operators_do():
    for id_type in (torch.long, torch.int32):
        given = Given(id_type)
        for weighted in (False, True):
            for count in (40, 1, 0):
                seeds = seeds_of(count)
                torch.manual_seed(5)
                sample = given.sample(seeds, weighted)
                torch.manual_seed(5)
                nodes, edges = by_operators(given, seeds, weighted)
                message = (id_type, weighted, count)
                assert sample.nodes.dtype == id_type and sample.nodes.device == device(), message
                numpy.testing.assert_array_equal(sample.nodes.cpu().numpy(), nodes, str(message))
                for block, (sources, destinations) in zip(reversed(sample.blocks), edges):
                    at_source, at_destination = ends_of(block)
                    numpy.testing.assert_array_equal(nodes[at_source], sources, str(message))
                    numpy.testing.assert_array_equal(nodes[at_destination], destinations, str(message))
                assert sample.num_nodes == (*(b.num_dst for b in reversed(sample.blocks)), len(nodes)), message
                assert [b.num_src for b in reversed(sample.blocks)] == list(sample.num_nodes[1:]), message
                assert sample.num_edges == tuple(len(sources) for sources, _ in edges), message


def keeps_ids_of_inputs():
    """The first block by id is the usual one with each node's own list behind its neighbors."""
    for id_type in (torch.long, torch.int32):
        given = Given(id_type)
        for weighted in (False, True):
            torch.manual_seed(6)
            usual = given.sample(seeds_of(30), weighted)
            torch.manual_seed(6)
            by_id = given.sample(seeds_of(30), weighted, inputs_by_id=True)
            first, expected = by_id.blocks[0], usual.blocks[0]
            assert (first.num_src, first.num_dst, len(by_id.nodes)) == (NODES, 2 * expected.num_dst, expected.num_dst)
            same(by_id.nodes, usual.nodes[: len(by_id.nodes)], "nodes")
            assert by_id.num_nodes == usual.num_nodes[:-1]
            nodes, (sources, _) = usual.nodes.cpu().numpy(), ends_of(expected)
            neighbors = numpy.split(nodes[sources], expected.indptr.cpu().numpy()[1:-1])
            lists = numpy.split(first.indices.cpu().numpy(), first.indptr.cpu().numpy()[1:-1])
            assert first.indptr[-1] == first.num_edges == len(sources) + expected.num_dst
            for v in range(expected.num_dst):
                numpy.testing.assert_array_equal(lists[2 * v], neighbors[v])
                numpy.testing.assert_array_equal(lists[2 * v + 1], nodes[v : v + 1])
            for got, wanted in zip(by_id.blocks[1:], usual.blocks[1:]):
                same(got.indptr, wanted.indptr, "lists")
                same(got.indices, wanted.indices, "lists")
            rows = strata.dgs.mean_and_own_rows(given.features.to(device()), first).cpu().numpy()
            for v in range(expected.num_dst):
                own = given.features.numpy()[nodes[v]]
                means = given.features.numpy()[neighbors[v]].mean(0) if len(neighbors[v]) else 0 * own
                numpy.testing.assert_allclose(rows[v], numpy.concatenate([means, own]), rtol=1e-5, atol=1e-6)


def samples_one_hop():
    given, seeds = Given(), seeds_of(20).to(device())
    for by_id, sizes in ((False, None), (True, (NODES, 40))):
        sample = strata.dgs.sample_blocks(seeds, *given.chunks[:2], [-1], inputs_by_id=by_id)
        (block,) = sample.blocks
        assert (block.num_src, block.num_dst) == (sizes or (len(sample.nodes), 20)), (by_id, block.num_src, block.num_dst)
        assert sample.num_nodes == ((20,) if by_id else (20, len(sample.nodes)))
        degrees = given.indptr.diff()[seeds.cpu()].sum()
        assert block.num_edges == degrees + 20 * by_id
        buffer = strata.dgs.BlockBuffer(strata.dgs.BlockRooms.around([sample]), sample)
        buffer.copy(sample)
        same(buffer.blocks()[0].indptr[: block.num_dst + 1], block.indptr, "lists")


def has_the_same_edges_by_source():
    given = Given()
    for input_gradients in (True, False):
        sample = given.sample(seeds_of(50), input_gradients=input_gradients)
        for block in sample.blocks[0 if input_gradients else 1 :]:
            sources, destinations = ends_of(block)
            starts, ends = (tensor.cpu().numpy() for tensor in block.out_lists())
            order = numpy.lexsort((destinations, sources))
            numpy.testing.assert_array_equal(ends, destinations[order])
            numpy.testing.assert_array_equal(starts, numpy.searchsorted(sources[order], numpy.arange(block.num_src + 1)))
        assert (sample.blocks[0]._out_lists is not None) == input_gradients


def model_of(layer):
    torch.manual_seed(3)
    sizes = [COLUMNS, 16, 16, CLASSES]
    return torch.nn.ModuleList(layer(a, b) for a, b in zip(sizes, sizes[1:])).to(device())


def scores_and_gradients(model, x, blocks, labels, table=None):
    """Of the seeds alone; labels of -100 are of none. With a `table` the first block is by id."""
    for i, (conv, block) in enumerate(zip(model, blocks)):
        if i == 0 and table is not None:
            weight = torch.cat([conv.lin_l.weight, conv.lin_r.weight], dim=1)
            x = torch.nn.functional.linear(strata.dgs.mean_and_own_rows(table, block), weight, conv.lin_l.bias)
        else:
            x = conv(x if i == 0 else x.relu(), block)
    model.zero_grad()
    torch.nn.functional.cross_entropy(x, labels).backward()
    return x.detach(), [parameter.grad.clone() for parameter in model.parameters()]


def gat(in_channels, out_channels):
    return GATConv(in_channels, out_channels, heads=2, concat=False, add_self_loops=False, residual=True)


def pads_without_a_trace():
    """Scores and gradients of a mini-batch in a buffer are those of the mini-batch, whatever the buffer held before."""
    given = Given()
    labels = (torch.arange(NODES) % CLASSES).to(device())
    for layer, by_id in ((SAGEConv, False), (SAGEConv, True), (gat, False)):
        model, table = model_of(layer), given.features.to(device()) if by_id else None
        options = {"inputs_by_id": by_id, "input_gradients": layer is gat}
        counts = 60, 60, 17, 60, 1
        samples, usual = [], []
        for i, count in enumerate(counts):
            torch.manual_seed(i)
            samples.append(given.sample(seeds_of(count, i), **options))
            torch.manual_seed(i)
            usual.append(given.sample(seeds_of(count, i)))
        rooms = strata.dgs.BlockRooms.around(samples[:4])
        buffer = strata.dgs.BlockBuffer(rooms, samples[0])
        x = torch.zeros(len(buffer.nodes), COLUMNS, device=device())
        for sample, plain, count in zip(samples, usual, counts):
            assert buffer.holds(sample)
            buffer.copy(sample)
            given.rows.index_into(sample.nodes, x)
            y = torch.full((rooms.nodes[0],), -100, device=device())
            y[:count] = labels[sample.nodes[:count]]
            padded = scores_and_gradients(model, x, buffer.blocks(), y, table)
            expected = scores_and_gradients(model, given.rows._CAPI_index(plain.nodes), plain.blocks, y[:count])
            torch.testing.assert_close(padded[0][:count], expected[0], rtol=1e-4, atol=1e-5)
            for got, wanted in zip(padded[1], expected[1]):
                torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-5)
        larger = given.sample(seeds_of(120, 9), **options)
        assert not buffer.holds(larger)
        refuse("does not fit", strata.InputError, lambda: buffer.copy(larger))
        if layer is SAGEConv:
            refuse("input_gradients", strata.InputError, buffer.blocks()[0].out_lists)


def repeats_recorded_steps():
    """A recording gives what the same calls give, for each mini-batch that is copied into its buffer."""
    given, model = Given(), model_of(SAGEConv)
    labels = (torch.arange(NODES) % CLASSES).to(device())
    samples = [given.sample(seeds_of(50, i)) for i in range(6)]
    buffer = strata.dgs.BlockBuffer(strata.dgs.BlockRooms.around(samples), samples[0])
    x, y = torch.zeros(len(buffer.nodes), COLUMNS, device=device()), torch.zeros(50, dtype=torch.long, device=device())

    def fill(sample):
        buffer.copy(sample)
        given.rows.index_into(sample.nodes, x)
        y.copy_(labels[sample.nodes[:50]])

    fill(samples[0])
    with torch.cuda.stream(torch.cuda.Stream()):
        scores_and_gradients(model, x, buffer.blocks(), y)
    torch.cuda.synchronize()
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording):
        recorded = scores_and_gradients(model, x, buffer.blocks(), y)
    for sample in samples:
        fill(sample)
        recording.replay()
        plain = scores_and_gradients(model, given.rows._CAPI_index(sample.nodes), sample.blocks, labels[sample.nodes[:50]])
        torch.testing.assert_close(recorded[0][:50], plain[0], rtol=1e-4, atol=1e-5)
        for got, expected in zip(recorded[1], plain[1]):
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5)


def writes_rows_where_asked():
    given = Given(columns=7)
    assert given.rows.size() == NODES and given.chunks[0].size() == NODES + 1
    ids = seeds_of(100).to(device())
    for dtype in (torch.int32, torch.long):
        out = torch.full((130, 7), 9.0, device=device())
        given.rows.index_into(ids.to(dtype), out)
        same(out[:100], given.features[ids.cpu()], "rows")
        same(out[100:], torch.full((30, 7), 9.0), "what lies behind them")


def refuses_blocks():
    given = Given()
    ids = torch.tensor([3, 1, 3], device=device())
    refuse("1 of 3 seeds", ValueError, lambda: given.sample(ids))
    refuse("seed 0 is 500", IndexError, lambda: given.sample(torch.tensor([NODES])))
    narrow = Given(torch.int32)
    for seed in (1 << 33, -1):
        refuse(f"seed {seed} is no node of {NODES}", IndexError, lambda seed=seed: narrow.sample(torch.tensor([seed])))
    for seeds in (torch.tensor([0.7, 2.9]), torch.tensor([True, False]), torch.tensor(3)):
        refuse("Give one row of int64 or int32", ValueError, lambda seeds=seeds: narrow.sample(seeds))
    refuse("num_picks", ValueError, lambda: strata.dgs.sample_blocks(ids[:2], *given.chunks[:2], [3, -2]))
    rows = torch.zeros(3, COLUMNS, device=device())
    for out in (rows[:2], rows.double(), rows[:, :3], rows[0], rows.t().contiguous().t()):
        refuse("cannot be written", ValueError, lambda out=out: given.rows.index_into(ids, out))
    if num_gpus() == 0:
        refuse("is no row", IndexError, lambda: given.rows.index_into(torch.tensor([NODES]), rows))
    block = given.sample(ids[:2], inputs_by_id=True).blocks[0]
    for dtype in (torch.half, torch.double, torch.int32, torch.bool):
        table = torch.ones(NODES, COLUMNS, device=device()).to(dtype)
        refuse("neither float32 nor bfloat16", strata.InputError, lambda table=table: strata.dgs.mean_and_own_rows(table, block))
    refuse("no mini-batches", strata.InputError, lambda: strata.dgs.BlockRooms.around([]))


if __name__ == "__main__":
    main(globals())
