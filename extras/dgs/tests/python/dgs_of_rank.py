# SPDX-License-Identifier: Apache-2.0
"""A rank of test_dgs.py: runs scenarios, which are functions here, one after the other.

    dgs_of_rank.py SCENARIO...
"""

import os
import pathlib
import random
import signal
import sys

import torch
import torch.distributed as dist

import strata.dgs
from strata.nn import SAGEConv

TYPES = [torch.int32, torch.int64, torch.float, torch.double, torch.bool, torch.half, torch.bfloat16, torch.uint8]
ON_GPU = torch.cuda.is_available()


def say(text):
    """In one piece, because several ranks print."""
    print(f"[{dist.get_rank()}] {text}\n", end="", flush=True)


def device():
    return torch.device("cuda", torch.cuda.current_device()) if ON_GPU else torch.device("cpu")


def num_gpus():
    return min(dist.get_world_size(), torch.cuda.device_count()) if ON_GPU else 0


def make(data, capacity):
    """Loaded by the last rank."""
    tensor = strata.dgs.ChunkTensor(data.shape, data.dtype, capacity)
    if dist.get_rank() == dist.get_world_size() - 1:
        tensor._CAPI_load_from_tensor(data)
    dist.barrier()
    return tensor


def same(got, expected, message):
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got, expected, message)
    assert torch.equal(got.cpu(), expected.cpu()), (got, expected, message)


def expected_cut(data, capacity):
    """Elements of this rank's GPU, and of all GPUs: what the README of Dist-GPU-sampling says, in whole rows."""
    gpus = num_gpus()
    row = data[0].numel() if data.dim() == 2 and len(data) else 1
    if gpus == 0 or data.numel() == 0:
        return range(0), 0
    rows = min(capacity // (row * data.element_size()), -(-len(data) // gpus))
    own = dist.get_rank() % gpus
    everything = min(len(data), rows * gpus)
    return range(min(own * rows, everything) * row, min((own + 1) * rows, everything) * row), everything * row


def check(data, capacity, generator):
    message = (tuple(data.shape), data.dtype, capacity)
    tensor = make(data, capacity)
    own, on_gpus = expected_cut(data, capacity)
    flat = data.flatten()
    host, sub = tensor._CAPI_get_host_tensor(), tensor._CAPI_get_sub_device_tensor()
    assert host.device.type == "cpu" and sub.device == device(), (host.device, sub.device)
    same(host, flat[on_gpus:], message)
    same(sub, flat[own.start : own.stop], message)

    row = data[0].numel() if data.dim() == 2 and len(data) else 1
    assert torch.ops.dgs_ops._CAPI_get_current_allocated() == (
        min(capacity // (row * data.element_size()), -(-len(data) // num_gpus())) * row * data.element_size() if num_gpus() and len(data) else 0
    ), message
    if len(data) == 0:
        same(tensor._CAPI_index(torch.empty(0, dtype=torch.long, device=device())), data.view(0, 1) if data.dim() == 1 else data, message)
        return
    ids = torch.randint(0, len(data), (257,), generator=generator)
    first, last = own.start // row, own.stop // row
    for dtype in (torch.int32, torch.int64):
        here = ids.to(device(), dtype)
        local, remote, on_host = tensor._CAPI_split_index(here)
        is_host = ids >= on_gpus // row
        is_local = (ids >= first) & (ids < last)
        for part, mask, read in (
            (local, is_local, tensor._CAPI_local_index),
            (remote, ~is_local & ~is_host, tensor._CAPI_remote_index),
            (on_host, is_host, tensor._CAPI_host_index),
        ):
            same(part, ids[mask].to(dtype), message)
            same(read(part), data[ids[mask]].view(int(mask.sum()), row), message)
        same(tensor._CAPI_index(here), data[ids].view(len(ids), row), message)
    none = torch.empty(0, dtype=torch.long, device=device())
    same(tensor._CAPI_index(none), data[none.cpu()].view(0, row), message)


def random_tensor(shape, dtype, generator):
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape, generator=generator).to(dtype)


def every_shape_and_type():
    generator, dice = torch.Generator().manual_seed(1), random.Random(2)
    for dtype in TYPES:
        for shape in ((100,), (dice.randrange(1, 500),), (64, 1), (dice.randrange(1, 300), dice.randrange(1, 40)), (33, 128)):
            data = random_tensor(shape, dtype, generator)
            size = data.numel() * data.element_size()
            for capacity in (0, dice.randrange(size + 1), 2 * size):
                check(data, capacity, generator)
    for shape in ((0,), (0, 7)):
        check(torch.empty(shape), 100, generator)


def cut_of_the_readme():
    tensor = make(torch.arange(100), 200)
    say(f"cut {list(tensor._CAPI_get_sub_device_tensor().shape)}")
    fits = make(torch.arange(100), 10**6)
    say(f"even {list(fits._CAPI_get_sub_device_tensor().shape)}")


def drops_in_any_order():
    """Memory returns at the next creation, and a view keeps it for as long as it lives."""
    rank = dist.get_rank()
    tensors = [make(torch.full((1000,), float(i)), 100) for i in range(4)]
    view = tensors[1]._CAPI_get_host_tensor()
    kept = view.clone()
    random.Random(rank).shuffle(tensors)
    while tensors:
        tensors.pop()
    after = make(torch.zeros(1000), 100)
    assert torch.equal(view, kept)
    del view
    last = make(torch.ones(1000), 100)
    same(after._CAPI_get_host_tensor()[-1:], torch.zeros(1), "")
    after.close()
    for use in (after._CAPI_get_host_tensor, after.close, lambda: after._CAPI_index(torch.tensor([1], device=device()))):
        try:
            use()
        except ValueError as error:
            assert "was closed" in str(error), error
        else:
            raise AssertionError("a closed tensor was used")
    held = last._CAPI_get_host_tensor() if rank == 0 else None
    for collective in (last.close, strata.dgs.close):
        try:
            collective()
        except ValueError as error:
            assert "rank 0 still holds" in str(error), error
        else:
            raise AssertionError("memory was returned under a view")
    del held, use, collective
    last.close()
    strata.dgs.close()
    strata.dgs.create_communicator()
    same(make(torch.arange(10), 0)._CAPI_get_host_tensor(), torch.arange(10), "")


def refuse(what, kind, use):
    """`use` must raise a `kind` of error that says `what`."""
    try:
        use()
    except kind as error:
        assert what in str(error), (what, str(error))
    else:
        raise AssertionError(f"not refused: {what}")


def refuses():
    classes, ops = torch.classes.dgs_classes, torch.ops.dgs_ops
    tensor = make(torch.arange(20).view(10, 2), 0)

    refuse("[1, 2, 3]", ValueError, lambda: classes.ChunkTensor([1, 2, 3], torch.int64, 8))
    refuse("[-1]", ValueError, lambda: classes.ChunkTensor([-1], torch.int64, 8))
    refuse("capacity_per_gpu is -8", ValueError, lambda: classes.ChunkTensor([1], torch.int64, -8))
    refuse("ComplexFloat", ValueError, lambda: classes.ChunkTensor([1], torch.complex64, 8))
    refuse("Long [2, 10]", ValueError, lambda: tensor._CAPI_load_from_tensor(torch.zeros(2, 10, dtype=torch.long)))
    refuse("Float [10, 2]", ValueError, lambda: tensor._CAPI_load_from_tensor(torch.zeros(10, 2)))
    refuse("strides [1, 10]", ValueError, lambda: tensor._CAPI_load_from_tensor(torch.zeros(2, 10, dtype=torch.long).t()))
    refuse("the index has 1 dimensions of Float", ValueError, lambda: tensor._CAPI_index(torch.zeros(1, device=device())))
    if not ON_GPU:
        refuse("index 1 is 10, which is no row of 10", IndexError, lambda: tensor._CAPI_index(torch.tensor([9, 10])))
        refuse("index 0 is -1", IndexError, lambda: tensor._CAPI_split_index(torch.tensor([-1])))
    refuse("in a group already", ValueError, strata.dgs.create_communicator)
    refuse("is no rank of a group", ValueError, lambda: ops._CAPI_set_nccl(2, [1], 2))
    refuse("is none that _CAPI_get_unique_id", ValueError, lambda: ops._CAPI_set_nccl(1, [1, 2, 3, 4], 0))
    open_files, threads = (len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task"))
    ids = [tuple(ops._CAPI_get_unique_id()) for _ in range(50)]
    assert len(set(ids)) == 50
    assert len(os.listdir("/proc/self/fd")) < open_files + 25, "places to meet are files"
    assert len(os.listdir("/proc/self/task")) < threads + 25, "places to meet are threads"
    if dist.get_world_size() > 1:
        refuse("rank 0 makes a ChunkTensor of 1 rows", ValueError, lambda: classes.ChunkTensor([1 + dist.get_rank()], torch.int64, 8))
        is_last = dist.get_rank() == dist.get_world_size() - 1
        refuse("the shape [-1]", ValueError, lambda: classes.ChunkTensor([-1 if is_last else 1], torch.int64, 8))
    same(make(torch.arange(10), 0)._CAPI_get_host_tensor()[:1], torch.zeros(1, dtype=torch.long), "")


ops = torch.ops.dgs_ops


def random_graph(generator, nodes=60, most=80):
    """indptr and indices; some nodes have no neighbors."""
    degrees = torch.randint(0, most, (nodes,), generator=generator)
    degrees[::7] = 0
    indptr = torch.cat([torch.zeros(1, dtype=torch.long), degrees.cumsum(0)])
    return indptr, torch.cat([torch.randperm(1000, generator=generator)[:degree] for degree in degrees.tolist()])


def as_chunks(*tensors):
    """Each cut somewhere else."""
    return [make(tensor, tensor.element_size() * (len(tensor) // (3 + i))) for i, tensor in enumerate(tensors)]


def lists_of(rows, cols, seeds):
    """The neighbors of each entry of the seeds, which are distinct here; rows must be in their order."""
    order = torch.unique_consecutive(rows).tolist()
    assert order == [seed for seed in seeds.tolist() if seed in set(order)], "not in the order of the seeds"
    found = {seed: [] for seed in seeds.tolist()}
    for row, col in zip(rows.tolist(), cols.tolist()):
        found[row].append(col)
    return found


def samplers(indptr, indices, probs):
    """By name: sample(seeds, num_picks, replace) of all four operators."""
    chunks = as_chunks(indptr, indices, probs)
    there = [tensor.to(device()) for tensor in (indptr, indices, probs)]
    return {
        "uniform": lambda *a: ops._CAPI_sample_neighbors(a[0], *there[:2], *a[1:]),
        "uniform chunks": lambda *a: ops._CAPI_sample_neighbors_with_chunk_tensor(a[0], *chunks[:2], *a[1:]),
        "probs": lambda *a: ops._CAPI_sample_neighbors_with_probs(a[0], *there, *a[1:]),
        "probs chunks": lambda *a: ops._CAPI_sample_neighbors_with_probs_with_chunk_tensor(a[0], *chunks, *a[1:]),
    }


def takes_arguments_by_name():
    indptr, indices = torch.tensor([0, 2, 3]), torch.tensor([1, 0, 1])
    seeds, probs = torch.tensor([0, 1], device=device()), torch.ones(3)
    there = {"indptr": indptr.to(device()), "indices": indices.to(device())}
    chunks = dict(zip(("indptr", "indices", "probs"), as_chunks(indptr, indices, probs)))
    how = {"seeds": seeds, "num_picks": -1, "replace": False}
    some = how | {"num_picks": 2}
    for rows, cols in (
        ops._CAPI_sample_neighbors(**how, **there),
        ops._CAPI_sample_neighbors_with_chunk_tensor(**how, indptr=chunks["indptr"], indices=chunks["indices"]),
        ops._CAPI_sample_neighbors_with_probs(**some, **there, probs=probs.to(device())),
        ops._CAPI_sample_neighbors_with_probs_with_chunk_tensor(**some, **chunks),
    ):
        assert rows.tolist() == [0, 0, 1] and cols.tolist() == [1, 0, 1], (rows, cols)
    unique, (relabeled,) = ops._CAPI_tensor_relabel(mapping=[cols], to_relabel=[rows])
    assert unique.tolist() == [1, 0] and relabeled.tolist() == [1, 1, 0]
    keys, values = ops._CAPI_create_hash_map(keys=seeds[:1], values=seeds[:1])
    cpu = torch.tensor([[1.0], [2.0]])
    cpu = cpu.pin_memory() if device().type == "cuda" else cpu
    cache = {"cpu": cpu, "nid": seeds, "keys": keys, "values": values}
    for gpu, fetch in ((cpu[:1].to(device()), ops._CAPI_fetch_data), (make(torch.ones(1, 1), 0), ops._CAPI_fetch_data_chunk_tensor)):
        assert fetch(gpu=gpu, **cache).tolist() == [[1.0], [2.0]]
    chunk = make(torch.arange(4), 16)
    assert chunk._CAPI_index(ids=seeds).tolist() == [[0], [1]]
    assert sorted(torch.cat([part.cpu() for part in chunk._CAPI_split_index(ids=torch.arange(4))]).tolist()) == [0, 1, 2, 3]


def samples_as_asked():
    """Counts, membership, order and types of all four samplers; ChunkTensors give what plain tensors give."""
    generator = torch.Generator().manual_seed(3)
    indptr, indices = random_graph(generator)
    probs = torch.rand(len(indices), generator=generator) + 0.01
    probs[::5] = 0
    seeds = torch.randperm(60, generator=generator)[:40]
    for id_type, seed_type, prob_type in (
        (torch.long, torch.long, torch.float),
        (torch.int32, torch.int32, torch.float),
        (torch.int32, torch.long, torch.double),
    ):
        given = samplers(indptr.to(id_type), indices.to(id_type), probs.to(prob_type))
        here = seeds.to(device(), seed_type)
        for picks, replace in ((5, False), (5, True), (40, False), (0, False), (100, False), (70, True)):
            results = {}
            for name, sample in given.items():
                torch.manual_seed(7)
                rows, cols = sample(here, picks, replace)
                message = (name, id_type, picks, replace)
                assert (rows.dtype, cols.dtype, rows.device) == (seed_type, id_type, device()), message
                results[name] = (rows, cols)
                for seed, found in lists_of(rows.cpu().long(), cols.cpu().long(), seeds).items():
                    span = slice(int(indptr[seed]), int(indptr[seed + 1]))
                    neighbors = indices[span]
                    if "probs" in name:
                        neighbors = neighbors[probs[span] > 0]
                    count = (picks if len(neighbors) else 0) if replace else min(picks, len(neighbors))
                    assert len(found) == count and set(found) <= set(neighbors.tolist()), (message, seed, found)
                    if not replace:
                        assert len(set(found)) == len(found), (message, seed, found)
                    if not replace and count == len(neighbors):
                        assert found == neighbors.tolist(), (message, seed)
            for name in ("uniform", "probs"):
                for plain, chunk in zip(results[name], results[name + " chunks"]):
                    same(chunk, plain, name)
    rows, cols = samplers(indptr, indices, probs)["uniform chunks"](seeds.to(device()), -1, False)
    assert len(rows) == sum(int(indptr[s + 1] - indptr[s]) for s in seeds.tolist())
    none = torch.empty(0, dtype=torch.long, device=device())
    for sample in samplers(indptr, indices, probs).values():
        assert [len(part) for part in sample(none, 5, False)] == [0, 0]
        first, second = sample(seeds.to(device()), 3, True), sample(seeds.to(device()), 3, True)
        assert not torch.equal(first[1], second[1]), "two calls gave the same picks"


def chi_square(counts, expected):
    """How many standard deviations the statistic is above what chance gives."""
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    return float((statistic - freedom) / (2 * freedom) ** 0.5)


def inclusion(weights, picks):
    """How likely each item is among the first `picks`, drawn one after the other without replacement."""
    if picks == 0:
        return torch.zeros(len(weights), dtype=torch.double)
    total = torch.zeros(len(weights), dtype=torch.double)
    for i, weight in enumerate(weights):
        rest = weights.clone()
        rest[i] = 0
        below = inclusion(rest, picks - 1) if rest.sum() > 0 else torch.zeros(len(weights), dtype=torch.double)
        below[i] = 1
        total += weight / weights.sum() * below
    return total


def samples_fairly():
    """Every neighbor as often as its share says, for all four samplers with and without replacement."""
    torch.manual_seed(11)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 0.5, 6.0, 2.5], dtype=torch.double)
    long = torch.rand(700, dtype=torch.double) + 0.1
    for list_weights, picks, draws in ((weights, 3, 40000), (weights, 1, 40000), (long, 20, 4000)):
        degree = len(list_weights)
        given = samplers(torch.tensor([0, degree]), torch.arange(degree), list_weights)
        seeds = torch.zeros(draws, dtype=torch.long, device=device())
        for name, sample in given.items():
            shares = list_weights if "probs" in name else torch.ones(degree, dtype=torch.double)
            for replace in (False, True):
                if replace:
                    expected = shares / shares.sum() * picks
                elif "probs" not in name:
                    expected = torch.full((degree,), picks / degree, dtype=torch.double)
                elif degree < 10:
                    expected = inclusion(shares, picks)
                else:
                    continue  # too many orders to add up
                cols = sample(seeds, picks, replace)[1].cpu()
                counts = torch.bincount(cols, minlength=degree).double()
                assert counts.sum() == draws * picks
                off = chi_square(counts, expected * draws)
                assert off < 5, (name, replace, picks, degree, off)
    # Pairs, where a bad shuffle shows first.
    rows = samplers(torch.tensor([0, 20]), torch.arange(20), torch.ones(20))
    for name in ("uniform", "probs"):
        cols = rows[name](torch.zeros(60000, dtype=torch.long, device=device()), 2, False)[1].cpu().view(-1, 2).sort(1).values
        counts = torch.bincount(cols[:, 0] * 20 + cols[:, 1], minlength=400).view(20, 20).double()
        pairs = counts[torch.ones(20, 20).triu(1).bool()]
        off = chi_square(pairs, torch.full((190,), 60000 / 190, dtype=torch.double))
        assert off < 5, (name, off)


def refuses_to_sample():
    there = [torch.tensor([0, 2, 3], device=device()), torch.tensor([1, 0, 1], device=device())]
    seeds = torch.tensor([0, 1], device=device())
    for what, kind, use in (
        ("seed 1 is 2, which is none of 2 nodes", IndexError, lambda: ops._CAPI_sample_neighbors(seeds + 1, *there, 2, False)),
        ("seed 0 is -1", IndexError, lambda: ops._CAPI_sample_neighbors(seeds - 1, *there, 2, False)),
        ("num_picks is -2", ValueError, lambda: ops._CAPI_sample_neighbors(seeds, *there, -2, False)),
        ("num_picks is -1", ValueError, lambda: ops._CAPI_sample_neighbors(seeds, *there, -1, True)),
        ("2 probabilities for 3 indices", ValueError, lambda: ops._CAPI_sample_neighbors_with_probs(seeds, *there, torch.ones(2, device=device()), 2, False)),
        *(
            (f"probability of index {bad} is negative, infinite or not a number", ValueError, lambda call=(sample, seeds, picks, replace): call[0](*call[1:]))
            for bad, wrong in ((0, float("nan")), (2, float("inf")), (1, -1.0), (2, float("-inf")))
            for probs in [torch.ones(3, dtype=torch.double if bad else torch.float).index_fill(0, torch.tensor([bad]), wrong)]
            for name, sample in samplers(torch.tensor([0, 2, 3]), torch.tensor([1, 0, 1]), probs).items()
            if "probs" in name
            for picks, replace in ((1, False), (5, False), (2, True))
        ),
        ("not float or double", ValueError, lambda: ops._CAPI_sample_neighbors_with_probs(seeds, *there, there[1], 2, False)),
        ("seeds has 1 dimensions of Float", ValueError, lambda: ops._CAPI_sample_neighbors(seeds.float(), *there, 2, False)),
        ("has 2 columns", ValueError, lambda: ops._CAPI_sample_neighbors_with_chunk_tensor(seeds, make(torch.zeros(2, 2), 0), make(there[1].cpu(), 0), 2, False)),
    ):
        refuse(what, kind, use)


def relabels():
    generator = torch.Generator().manual_seed(5)
    for dtype in (torch.long, torch.int32):
        for size in (0, 1, 10, 5000):
            mapping = [torch.randint(-50, 2000, (size,), generator=generator).to(device(), dtype) for _ in range(3)]
            asked = [torch.cat(mapping)[torch.randperm(3 * size, generator=generator).to(device())], mapping[1]]
            unique, relabeled = ops._CAPI_tensor_relabel(mapping, asked)
            together = torch.cat(mapping).tolist()
            number = {id: i for i, id in enumerate(dict.fromkeys(together))}
            same(unique, torch.tensor(list(number), dtype=dtype), (dtype, size))
            for ids, numbers in zip(asked, relabeled):
                same(numbers, torch.tensor([number[id] for id in ids.tolist()], dtype=dtype), (dtype, size))
            missing = ops._CAPI_tensor_relabel(mapping, [torch.tensor([10**6], dtype=dtype, device=device())])[1][0]
            assert missing.tolist() == [-1]
    for what, mapping, asked in (
        ("no mapping tensors", [], []),
        ("beside Long", [torch.zeros(1, dtype=torch.long)], [torch.zeros(1, dtype=torch.int32)]),
        ("2 dimensions", [torch.zeros(1, 1, dtype=torch.long)], []),
    ):
        refuse(what, ValueError, lambda: ops._CAPI_tensor_relabel(mapping, asked))


def caches_hot_rows():
    generator = torch.Generator().manual_seed(6)
    for dtype in (torch.long, torch.int32):
        for type_of_rows, columns in ((torch.float, 16), (torch.double, 3), (torch.half, 5), (torch.uint8, 7), (torch.int32, 1)):
            cpu = random_tensor((500, columns), type_of_rows, generator)
            cpu = cpu.pin_memory() if ON_GPU else cpu
            hot = torch.randperm(500, generator=generator)[:120]
            keys, values = hot.to(device(), dtype), torch.arange(120).to(device(), dtype)
            # Marked, so that one sees where a row came from.
            cached = cpu[hot] + 1
            table = ops._CAPI_create_hash_map(keys, values)
            ids = torch.randint(0, 500, (2000,), generator=generator)
            expected = cpu[ids].clone()
            for i, key in enumerate(hot.tolist()):
                expected[ids == key] = cached[i]
            here = ids.to(device(), dtype)
            same(ops._CAPI_fetch_data(cpu, cached.to(device()), here, *table), expected, (dtype, type_of_rows))
            chunks = make(cached, cached[0].numel() * cached.element_size() * 30)
            same(ops._CAPI_fetch_data_chunk_tensor(cpu, chunks, here, *table), expected, (dtype, type_of_rows))
    rows = torch.zeros(4, 2).pin_memory() if ON_GPU else torch.zeros(4, 2)
    one = torch.zeros(1, dtype=torch.long, device=device())
    table = ops._CAPI_create_hash_map(one, one)
    for what, kind, use in (
        ("cached as", ValueError, lambda: ops._CAPI_fetch_data(rows, torch.zeros(1, 3, device=device()), one, *table)),
        ("are no hash map", ValueError, lambda: ops._CAPI_fetch_data(rows, rows.to(device()), one, *[torch.zeros(3, device=device(), dtype=torch.long)] * 2)),
        ("asked of a hash map", ValueError, lambda: ops._CAPI_fetch_data(rows, rows.to(device()), one.int(), *table)),
        ("2 keys of", ValueError, lambda: ops._CAPI_create_hash_map(torch.cat([one, one]), one)),
    ):
        refuse(what, kind, use)
    if not ON_GPU:
        text = "id 0 is 4, which has row 4 of 4 on the host"
        refuse(text, IndexError, lambda: ops._CAPI_fetch_data(rows, rows[:1], torch.tensor([4]), *table))
    # A table without a free slot is none that _CAPI_create_hash_map() made, and still no search in it goes on for ever.
    full = torch.arange(4, device=device())
    same(ops._CAPI_fetch_data(torch.cat([rows, rows]).pin_memory() if ON_GPU else torch.cat([rows, rows]), rows.to(device()) + 1,
                              full[:1] + 7, full, full), torch.zeros(1, 2), "a full table")


def trains_graphsage():
    """The loss falls with every sampler, and rows and lists in ChunkTensors train as plain tensors do."""
    generator = torch.Generator().manual_seed(8)
    nodes, classes = 300, 3
    labels = torch.arange(nodes) % classes
    features = (torch.nn.functional.one_hot(labels, classes) + torch.randn(nodes, classes, generator=generator)).repeat(1, 4)
    indptr = torch.arange(nodes + 1) * 12
    sources = torch.randint(0, nodes // classes, (nodes * 12,), generator=generator) * classes + labels.repeat_interleave(12)
    given = samplers(indptr, sources, torch.rand(len(sources), generator=generator) + 0.01)
    rows = make(features, features[0].numel() * 4 * 50)
    there, labels = features.to(device()), labels.to(device())
    losses = {}
    for name, sample in given.items():
        torch.manual_seed(9)
        model = torch.nn.ModuleList([SAGEConv(features.size(1), 16), SAGEConv(16, classes)]).to(device())
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        losses[name] = []
        for seeds in torch.randperm(nodes).to(device()).split(30) * 2:
            frontier, layers = seeds, []
            for _ in model:
                sources, neighbors = sample(frontier, 5, False)
                size = len(frontier)
                frontier, (at, of) = ops._CAPI_tensor_relabel([frontier, neighbors], [sources, neighbors])
                layers.insert(0, (torch.stack([of, at]), (len(frontier), size)))
            x = rows._CAPI_index(frontier) if "chunks" in name else there[frontier]
            for i, (conv, (edges, size)) in enumerate(zip(model, layers)):
                x = conv((x, x[: size[1]]), edges, size=size)
                x = x.relu() if i == 0 else x
            loss = torch.nn.functional.cross_entropy(x, labels[seeds])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
        assert sum(losses[name][-5:]) < 0.7 * sum(losses[name][:5]), (name, losses[name])
    for name in ("uniform", "probs"):
        assert torch.allclose(torch.tensor(losses[name]), torch.tensor(losses[f"{name} chunks"]), rtol=1e-3), losses


def refuses_what_was_closed():
    ids = torch.zeros(1, dtype=torch.long, device=device())
    rows = torch.zeros(4, 2).pin_memory() if ON_GPU else torch.zeros(4, 2)
    table = ops._CAPI_create_hash_map(ids, ids)
    indptr, indices, probs, cached = (make(tensor, 0) for tensor in (torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), rows))
    for closed in (probs, cached, indices):
        closed.close()
    for use in (
        lambda: ops._CAPI_sample_neighbors_with_chunk_tensor(ids, indptr, indices, 1, False),
        lambda: ops._CAPI_sample_neighbors_with_probs_with_chunk_tensor(ids, indptr, indices, probs, 1, False),
        lambda: ops._CAPI_fetch_data_chunk_tensor(rows, cached, ids, *table),
        lambda: cached._CAPI_split_index(ids),
        lambda: cached._CAPI_host_index(ids),
        lambda: cached._CAPI_load_from_tensor(torch.zeros(4, 2)),
        cached._CAPI_get_sub_device_tensor,
    ):
        refuse("was closed", ValueError, use)


def held():
    """MiB of memory of this process, MiB of its GPU that it and others use, and its open files."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    free, total = torch.cuda.mem_get_info() if ON_GPU else (0, 0)
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20, (total - free) >> 20, len(os.listdir("/proc/self/fd"))


def come_and_go(data, closes):
    """A tensor of which half lies on the host, results and errors; all of them are dropped at the end."""
    tensor = make(data, data.nbytes // 2 // max(1, num_gpus()))
    ids = torch.randint(0, len(data), (1000,)).unique().to(device())
    kept = [tensor._CAPI_index(ids), tensor._CAPI_get_host_tensor(), *tensor._CAPI_split_index(ids)]
    kept += ops._CAPI_create_hash_map(ids, torch.arange(len(ids), device=device()))
    refuse("strides", ValueError, lambda: tensor._CAPI_load_from_tensor(data.t().contiguous().t()))
    refuse("[1, 2, 3]", ValueError, lambda: torch.classes.dgs_classes.ChunkTensor([1, 2, 3], torch.int64, 8))
    if closes:
        kept.clear()
        tensor.close()


def leaks_nothing():
    """Tensors that come and go leave nothing. A leak shows in every pair of turns, what others on the machine do in some."""
    data = torch.arange(1 << 21).view(-1, 16)  # 16 MiB
    seen = []
    for turn in range(24):
        come_and_go(data, turn % 2 == 1)
        dist.barrier()
        seen.append(held())
        dist.barrier()
    for what, least, values in zip(("memory", "GPU memory", "files"), (8, 8, 1), zip(*seen)):
        assert min(later - earlier for earlier, later in zip(values, values[2:])) < least, (what, values)


def killed():
    """The last rank is killed; the others learn it from the next call that needs it."""
    say(f"pid {os.getpid()}")
    tensor = make(torch.arange(100), 200)
    if dist.get_rank() == dist.get_world_size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    same(tensor._CAPI_index(torch.arange(100, device=device()))[:, 0][-1:], torch.tensor([99]), "")
    try:
        strata.dgs.ChunkTensor([100], torch.int64, 200)
    except RuntimeError as error:
        say(f"told: {str(error).splitlines()[0]}")
    os._exit(0)


def main(scenarios):
    dist.init_process_group("gloo")
    if ON_GPU:
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    strata.dgs.create_communicator()
    for scenario in sys.argv[1:]:
        scenarios[scenario]()
        say(f"did {scenario}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(globals())
