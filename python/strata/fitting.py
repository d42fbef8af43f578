# SPDX-License-Identifier: Apache-2.0
"""A model of the user's own: trained in one call, and computed for all nodes in another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from strata import _arguments
from strata.errors import InputError
from strata.training import TrainResult

if TYPE_CHECKING:
    import torch

    from strata.choosers import NeighborChooser

_METRICS = ("accuracy", "macro_f1", "loss")


def fit(
    model: torch.nn.Module,
    data: Any,
    *,
    fanouts: Sequence[int] | None = None,
    epochs: int = 10,
    batch_size: int = 1024,
    batches: str | None = None,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
    optimizer: Any = None,
    lr: float = 0.003,
    sampler: str | NeighborChooser = "uniform",
    seed: int = 0,
    eval_every: int = 1,
    eval_fanouts: Sequence[int] | None = None,
    metric: str = "accuracy",
    patience: int = 0,
    recorded: bool | None = None,
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    resume: str | os.PathLike[str] | None = None,
    on_epoch: Callable[[dict[str, Any]], str | None] | None = None,
    progress: str = "auto",
) -> TrainResult:
    """Trains a model of your own on the training nodes of a graph. Collective: all ranks give the same arguments.

        result = strata.fit(GraphSAGE(100, 256, num_layers=3, out_channels=47), data, fanouts=[15, 10, 5], epochs=10)
        print(result.test.accuracy)                     # of the best epoch, whose weights the model has now

    The model is called as model(x, edge_index[, edge_weight, edge_attr]) with batches of strata.NeighborLoader, or as model(x,
    blocks) with those of strata.NodeLoader, whose blocks are as many as the fanouts; edge_weight and edge_attr are given if the
    graph has them and the model names them. The first rows of what it gives are those of the seeds. Models that take
    num_sampled_nodes_per_hop and num_sampled_edges_per_hop, as torch_geometric's do, are given these and trim their layers.

    On a GPU steps are recorded as strata.graphed() does; a warning says why if a step cannot be. Under several
    ranks the model trains under DistributedDataParallel, from the first rank's weights: a step's loss is the mean over
    the seeds of all ranks. With as many seeds per step in all, the losses are the same on any number of ranks up to rounding if the
    model takes blocks and has no dropout; merged batches have the same seeds, and neighbors of another choice.

    The run has a folder, with the files of strata-train that strata-report and strata-watch read: metrics.jsonl, and the best
    model's model.safetensors. checkpoint.pt, written after every epoch, is what `resume` continues from, with the same losses.

    Args:
        model: a torch.nn.Module; it is moved to this rank's device, and has the best epoch's weights in the end. The module
            itself is trained, without the torch.compile() or DistributedDataParallel around it.
        data: a graph of load(), from_tensors() ..., or a Data of torch_geometric or a DGLGraph, for which from_pyg() or from_dgl() is
            called.
        fanouts: neighbors per hop, the seeds' first; by default 15, 10, 5, 5 ... for as many layers as the model has.
        batch_size: seeds per rank and step.
        batches: "merged" or "blocks", the form that the model takes; by default the one that its forward() names, by a second
            argument edge_index (or edges, adj_t, adj) or blocks.
        loss: takes the rows of the seeds and their labels, and gives a loss per row, [n], or their mean, []; a mean is not
            recorded. By default cross entropy of classes, or the binary cross entropy of sets of classes; targets need one.
        optimizer: an optimizer of the model's parameters; or what makes one of them, such as torch.optim.SGD or a lambda. By default
            Adam with `lr`.
        sampler: as in NeighborLoader.
        seed: of the order of seeds, their neighbors and dropout, not of the weights, which the model has already.
        eval_every: epochs between evaluations of the validation and test nodes; 0: only after the last.
        eval_fanouts: None: exactly, by inference(), or with `fanouts` if the model cannot be computed so. Else these fanouts.
        metric: what "best" means for the validation nodes: "accuracy", "macro_f1" or "loss".
        patience: evaluations without improvement before the run ends; 0: never.
        recorded: False: never; True: an error if a step cannot be.
        output: the run's folder; by default runs/MODEL-DATE-NUMBER. One that has a run is refused without `overwrite`.
        resume: the folder of a run to go on with; the model, the data and all other arguments are given again, maybe more epochs.
        on_epoch: called on every rank with the epoch's record, and after an evaluation its "valid" and "test" scores. If it returns
            "stop" on any rank, the run ends as after the last epoch.
        progress: "auto": a bar on terminals and in notebooks; "bar" or "off".

    Returns:
        scores, records and weights as of train(); roc_auc is nan.

    Raises:
        InputError, OutOfMemory and their like. A KeyboardInterrupt says how to go on.
    """
    for name, value, words in (("metric", metric, _METRICS), ("progress", progress, ("auto", "bar", "off"))):
        if value not in words:
            raise InputError(f"{name} is {value!r}", f"Choose one of {', '.join(words)}.")
    for name, given in (("loss", loss), ("on_epoch", on_epoch)):
        if given is not None and not callable(given):
            raise TypeError(f"{name} is {given!r}; give a function")
    from strata import _fit

    options = _fit.Options(
        fanouts=None if fanouts is None else _arguments.fanouts(fanouts, "fanouts"),
        epochs=_arguments.integer(epochs, "epochs", 1),
        batch_size=_arguments.integer(batch_size, "batch_size", 1),
        batches=batches,
        lr=float(lr),
        sampler=sampler,
        seed=_arguments.integer(seed, "seed", 0, (1 << 64) - 1),
        eval_every=_arguments.integer(eval_every, "eval_every", 0),
        eval_fanouts=None if eval_fanouts is None else _arguments.fanouts(eval_fanouts, "eval_fanouts"),
        metric=metric,
        patience=_arguments.integer(patience, "patience", 0),
        recorded=recorded,
        output=None if output is None else os.fspath(output),
        overwrite=_arguments.flag(overwrite, "overwrite"),
        resume=None if resume is None else os.fspath(resume),
        progress=progress,
    )
    return _fit.run(model, data, options, loss, optimizer, on_epoch)


def inference(
    model: torch.nn.Module, graph: Any, *, batch_size: int = 4096, batches: str | None = None, num_layers: int | None = None
) -> torch.Tensor:
    """What a model gives for every node, computed layer by layer with all neighbors. Collective.

        logits = strata.inference(model, graph)         # float32 [num_nodes, out] on the CPU, in the graph's order
        classes = logits.argmax(dim=1)

    Rows of parts are in the order of their numbers: logits[graph.ids(torch.arange(graph.num_nodes))] has the input's.

    The result is that of the model in evaluation mode on the whole graph, up to rounding. Each layer is computed once per node, on
    the device for batch_size nodes and their neighbors at a time. Rows between the layers lie in host memory: on each rank up to 8
    bytes * num_nodes * columns, and the results of its own nodes of every layer. Ranks share the work, and all of them return
    all rows.

    A layer is what the model calls with the edges: any layer of torch_geometric or strata.nn, or another submodule. Between its
    layers a model works on each row by itself (activations, norms of a row, BatchNorm, residual connections, jumping knowledge).
    Both are checked on the first batch, and GCN's layers are given the degrees of the whole graph. A layer that looks further
    than one hop (ChebConv, APPNP, SGConv ...), or a norm over all nodes (GraphNorm), is refused.

    Args:
        model: model(x, edge_index[, edge_weight, edge_attr]), such as torch_geometric's GraphSAGE, GCN, GAT, GIN and PNA; or
            model(x, blocks), as for NodeLoader's batches. It is moved to this process's device.
        graph: of load(), from_tensors() ..., or a Data of torch_geometric or a DGLGraph, whose order the rows then have.
        batch_size: nodes per batch.
        batches: "merged" or "blocks", the form that the model takes; by default the one that its forward() names.
        num_layers: number of blocks that a model of blocks takes; by default its number of layers.

    Raises:
        InputError: the model is none of these.
    """
    from strata._layerwise import infer
    from strata._ranks_of_torch import Ranks
    from strata._user_models import form_of_model, graph_for, unwrapped

    network = unwrapped(model)
    form = form_of_model(network, batches)
    size = _arguments.integer(batch_size, "batch_size", 1)
    if num_layers is not None:
        _arguments.integer(num_layers, "num_layers", 1)
    with graph_for(graph) as found, Ranks() as ranks:
        return infer(network, found, form, size, num_layers, ranks)
