# SPDX-License-Identifier: Apache-2.0
"""Training steps of GraphSAGE in Python: as they are, and over a loader through strata.graphed(), with PyG's layers and Strata's.

    graphed.py [--graph SPEC] [--fanouts 15,10,5] [--batch-size 1024] [--hidden 256] [--forms blocks merged]
               [--layers strata pyg] [--steps N] [--train-epochs N] [--json FILE]

A row's time per step is that of an epoch, or of N steps, after 30 steps that are not counted, in which recordings are made; the
ratio is graphed by eager. `padding` is what the rows of a batch and its edges grow by. Under mpirun models train under
DistributedDataParallel, and the first rank prints. With --train-epochs, strata.train() does the same job in the end.
"""

import argparse
import collections
import itertools
import json
import tempfile
import time

import torch
from sage import Sage
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import strata

UNCOUNTED = 30


def parts_of(item, own, depth):
    """(x, y, seeds, loss_scale, how each layer is called) of a batch of either loader."""
    if not isinstance(item, tuple):
        calls = [lambda layer, x: layer(x, item.edge_index)] * depth
        return item.x, item.y, item.batch_size, item.loss_scale, calls
    batch, x, y = item
    if own:
        calls = [lambda layer, x, block=block: layer(x, block) for block in batch.blocks]
    else:
        calls = [
            lambda layer, x, block=block: layer((x, x[: block.num_dst]), block.edge_index, size=block.size)
            for block in batch.blocks
        ]
    return x, y, len(batch.output_nodes), batch.loss_scale, calls


def step_of(layers, options, graph, device):
    if layers == "pyg":
        from torch_geometric.nn import SAGEConv
    else:
        from strata.nn import SAGEConv
    torch.manual_seed(1)
    depth = len(options.fanouts)
    sizes = [graph.num_features] + [options.hidden] * (depth - 1) + [graph.num_classes]
    model = Sage(SAGEConv, sizes).to(device)
    on_gpu = device.startswith("cuda")
    if strata.process().size > 1:
        if on_gpu:
            with torch.cuda.stream(torch.cuda.Stream()):
                model = DistributedDataParallel(model)
        else:
            model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, fused=on_gpu, capturable=on_gpu)

    def step(item):
        x, y, seeds, scale, calls = parts_of(item, layers == "strata", depth)
        optimizer.zero_grad()
        loss = cross_entropy(model(x, calls)[:seeds], y) * scale
        loss.backward()
        optimizer.step()
        return loss

    return step


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    strata.process().barrier()


def last_of(losses):
    return collections.deque(losses, maxlen=1).pop()


def measured(losses_over, loader, steps):
    """Seconds per step, and the last loss."""
    count = min(steps or len(loader), len(loader))
    epochs = itertools.chain.from_iterable(losses_over(loader) for _ in itertools.count())
    last_of(itertools.islice(epochs, UNCOUNTED))
    synchronize()
    begun = time.perf_counter()
    loss = last_of(itertools.islice(losses_over(loader), count))
    synchronize()
    return (time.perf_counter() - begun) / count, float(loss.detach())


def padding_of(step, loader, batches=20):
    """The average growth of a batch's input rows and edges by padding."""
    sizes = [step._form.sizes_of(batch) for batch in itertools.islice(loader, batches)]
    return [
        sum(room) * len(sizes) / sum(sum(getattr(of_batch, name)) for of_batch in sizes) - 1
        for name, room in (("nodes", step.shape.nodes), ("edges", step.shape.edges))
    ]


def rows_of(form, options, graph, device):
    common = {"batch_size": options.batch_size, "shuffle": True, "drop_last": True}
    if form == "merged":
        loader = strata.NeighborLoader(graph, options.fanouts, "train", **common)
    else:
        loader = strata.NodeLoader(graph, "train", fanouts=options.fanouts, features=True, **common)
    for layers in options.layers:
        row = {"layers": layers, "form": form, "steps per epoch": len(loader)}
        eager = step_of(layers, options, graph, device)
        row["eager ms"], row["loss"] = measured(lambda batches: map(eager, batches), loader, options.steps)
        step = strata.graphed(step_of(layers, options, graph, device), loader)
        row["graphed ms"], row["graphed loss"] = measured(step.over, loader, options.steps)
        row |= {"counts": vars(step.counts), "padding": padding_of(step, loader)}
        for name in ("eager ms", "graphed ms"):
            row[name] *= 1e3
        yield row | {"ratio": row["graphed ms"] / row["eager ms"]}
    loader.close()


def seconds_of_train(options):
    """Seconds of the fastest epoch of strata.train()."""
    precision = "tf32" if strata.process().device.startswith("cuda") else "f32"
    with tempfile.TemporaryDirectory(prefix="strata-benchmark-") as folder:
        result = strata.train(
            graph=options.graph, model="sage", fanouts=options.fanouts, hidden=options.hidden, batch_size=options.batch_size,
            epochs=options.train_epochs, precision=precision, eval_every=0, checkpoint_every=0, output=folder, progress="off",
        )  # fmt: skip
    return min(epoch["seconds"] for epoch in result.records_of("epoch"))


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="synthetic:products")
    parser.add_argument("--fanouts", type=lambda text: [int(fanout) for fanout in text.split(",")], default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--forms", nargs="+", choices=["blocks", "merged"], default=["blocks"])
    parser.add_argument("--layers", nargs="+", choices=["strata", "pyg"], default=["strata", "pyg"])
    parser.add_argument("--steps", type=int, help="instead of an epoch")
    parser.add_argument("--train-epochs", type=int, default=0)
    parser.add_argument("--json", help="a file for the rows")
    return parser.parse_args()


def main():
    options = parsed()
    torch.backends.cuda.matmul.allow_tf32 = True
    process = strata.process()
    if process.size > 1:
        strata.init_process_group()
    graph = strata.load(options.graph, edge_ids=False)
    rows = []
    for form in options.forms:
        for row in rows_of(form, options, graph, process.device):
            rows.append(row)
            if process.rank > 0:
                continue
            nodes, edges = row["padding"]
            epoch = 1e-3 * row["steps per epoch"]
            print(
                f"{row['layers']:6} {form:6} eager {row['eager ms']:.2f} ms ({epoch * row['eager ms']:.3f} s an epoch), graphed "
                f"{row['graphed ms']:.2f} ms ({epoch * row['graphed ms']:.3f} s), ratio {row['ratio']:.2f}; losses "
                f"{row['loss']:.4f} {row['graphed loss']:.4f}; padding {nodes:.1%} rows, {edges:.1%} edges; {row['counts']}",
                flush=True,
            )
    graph.close()
    if options.train_epochs:
        seconds = seconds_of_train(options)
        rows.append({"strata.train": seconds})
        if process.rank == 0:
            print(f"strata.train: {seconds:.3f} s an epoch")
    if options.json and process.rank == 0:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    if process.size > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
