# SPDX-License-Identifier: Apache-2.0
# python/bindings/train_options.py wrote this file from src/train/train_options.cpp. Do not edit it.
"""Types, defaults and help of the options of strata.train()."""

import os
from collections.abc import Sequence
from typing import Any, Literal, TypedDict


class TrainOptions(TypedDict, total=False):
    target: str | None
    task: Literal["node", "link", "edge"] | None
    relation: str | None
    targets: str | os.PathLike[str] | None
    edge_split: str | None
    output: str | os.PathLike[str] | None
    overwrite: bool | None
    resume: str | os.PathLike[str] | bool | None
    init_from: str | os.PathLike[str] | None
    start_early: bool | None
    model: Literal["sage", "gcn", "gat", "gin", "rgcn", "rsage", "rgat", "hgt", "none"] | None
    aggregate: Literal["mean", "max"] | None
    hidden: int | None
    heads: int | Sequence[int] | None
    residual: bool | None
    decoder: str | None
    fanouts: Sequence[int] | None
    relation_fanouts: str | None
    bases: int | None
    learned_rows: int | None
    learned_optimizer: Literal["adam", "adagrad"] | None
    learned_lr: float | None
    sampler: Literal["uniform", "weighted", "labor", "labor-dependent"] | None
    inductive: bool | None
    replace: bool | None
    dropout: float | None
    input_dropout: float | None
    attention_dropout: float | None
    batch_size: int | None
    global_batch_size: int | None
    epochs: int | None
    lr: float | None
    weight_decay: float | None
    optimizer: Literal["adam", "adamw", "sgd"] | None
    lr_schedule: str | None
    warmup_steps: int | None
    clip_grad: float | None
    loss: str | None
    scale_targets: bool | None
    label_smoothing: float | None
    class_weights: str | None
    accumulate: int | None
    negatives: int | None
    negative_ends: Literal["destination", "both"] | None
    link_weights: bool | None
    exclude: Literal["off", "self", "reverse"] | None
    seed: int | None
    checkpoint_every: int | None
    cuda_graph: Literal["auto", "on", "off"] | None
    sm_split: str | None
    precision: Literal["f32", "tf32", "bf16"] | None
    eval_every: int | None
    eval_fanouts: Sequence[int] | None
    metric: Literal["auto", "accuracy", "macro_f1", "roc_auc", "rmse", "mae", "r2", "mrr", "hits_10"] | None
    eval_negatives: int | str | None
    patience: int | None
    device: Literal["auto", "cpu", "cuda"] | None
    ranks_per_machine: int | None
    gpu_memory: int | str | None
    placement: str | None
    host_gather: Literal["auto", "zero-copy", "threads", "both"] | None
    replicate_graph: Literal["auto", "on", "off"] | None
    exchange: Literal["auto", "nccl", "mpi"] | None
    row_exchange_precision: Literal["f32", "bf16"] | None
    halo_cache: int | str | None
    watchdog: int | None
    trace: str | os.PathLike[str] | None
    log_every: int | None
    log_level: Literal["trace", "debug", "info", "warn", "error", "off"] | None
    progress: Literal["auto", "bar", "lines", "off"] | None
    feature_format: Literal["stored", "i8", "e4m3", "i4"] | None
    sampler_device: Literal["auto", "cpu", "cuda"] | None
    pipeline: bool | None
    seeds: Sequence[int] | None
    on_nan: Literal["stop", "skip"] | None
    config: str | os.PathLike[str] | None


OPTIONS: dict[str, tuple[Any, str]] = {
    "target": (None, "Type of the nodes to train on, score and predict, in a graph of several types (default: that of the training nodes)"),
    "task": ('node', "What is learned: node (classes or numbers of nodes), link (which edges there are: a decoder scores pairs by the model's outputs for their ends), or edge (classes or numbers of edges)"),
    "relation": (None, "With task link and edge, the relations whose edges are learned, in a graph of several: their names, separated by commas, as SOURCE__NAME__DESTINATION where several are called so (default: all, without reverses rev_NAME)"),
    "targets": (None, "With task edge, a .npy file with what is learned: classes (integers) or numbers (floats), a row per edge in the order of the input; of several relations, those of the first come first"),
    "edge_split": ('0.1,0.1', "With task link and edge, the shares of pairs of nodes whose edges are held out for validation and for tests, chosen by seed, unless strata-partition --edge-split held some out. No batch and no evaluation sees these edges"),
    "output": (None, "Folder for the model, checkpoint, metrics, log and options of the run (default: runs/MODEL-DATE-NUMBER, with a link to it in runs/last)"),
    "overwrite": (False, "Replace the run that is in the output folder"),
    "resume": (False, "Continue the run in this folder (without a value: in output) with its options. Those given again must have the same values, except epochs and options that set where and how the run computes"),
    "init_from": (None, "Start from the weights of this run (its folder, or a model.safetensors) instead of random ones"),
    "start_early": (False, "Start training when the structure, the labels and the hottest feature rows are loaded. The other rows load in the background, those that a batch needs first. Results are the same"),
    "model": ('sage', "Type of the model's layers"),
    "aggregate": ('mean', "How sage combines the rows of the neighbors"),
    "hidden": (256, "Width of the hidden layers; for gat, of all heads together"),
    "heads": (4, "Attention heads of gat, rgat and hgt: one number for all layers (4), or one per layer, input layer first (8,8,1). Hidden layers concatenate their heads, the last layer averages them"),
    "residual": (False, "Add residual connections to gat: a linear map of a node's own row is added to each layer's output"),
    "decoder": ('auto', "How the outputs of both ends, and weights of the relation, score an edge: dot, distmult, complex, rotate (with a margin, and :l1 for the sum of complex lengths), transe (with its norm), or mlp; auto: dot of links, mlp of the targets of edges"),
    "fanouts": ([15, 10, 5], "Neighbors to sample per hop; one number per layer, FIRST HOP FIRST (from the seeds outwards, as PyG lists them; DGL lists them the other way round); -1: all neighbors"),
    "relation_fanouts": (None, "Fanouts of some relations of a graph of several types, instead of fanouts: \"cites=15,10;writes=5,5\". A relation is named by its name or, if several have it, as paper__cites__paper; 0: no neighbors over it"),
    "bases": (0, "Matrices of which rgcn combines the weights of all relations; 0: each relation has its own"),
    "learned_rows": (0, "Columns of the input rows that are learned for the nodes without features, one per node: of types that have none, or of all nodes of a graph without features; 0: learn no rows"),
    "learned_optimizer": ('adam', "How learned rows are updated, each in the steps that read it: adam (lazy; each row counts its own steps) or adagrad (with one sum of squares per row)"),
    "learned_lr": (0.01, "Learning rate of learned rows, which lr_schedule changes as it does lr"),
    "sampler": ('uniform', "How neighbors are chosen: uniform; weighted (in proportion to edge weights, which the graph must have); labor (LABOR-0: the fanout on average, and nodes share their neighbors, so that batches have fewer input nodes); labor-dependent (LABOR with the same random numbers in all layers: even fewer input nodes)"),
    "inductive": (False, "Train on the subgraph of the training nodes: training sees no edge from or to another node. Evaluation and predictions use the whole graph"),
    "replace": (False, "Sample neighbors with replacement (uniform and weighted)"),
    "dropout": (0.5, "Probability of dropping a value after each hidden layer"),
    "input_dropout": (0, "Probability of dropping an input feature"),
    "attention_dropout": (0, "Probability of dropping an attention weight of gat, rgat or hgt"),
    "batch_size": (1024, "Seed nodes per rank and step"),
    "global_batch_size": (0, "Seed nodes per step, all ranks together; 0: batch_size times the number of ranks"),
    "epochs": (10, "Passes over the training nodes"),
    "lr": (0.003, "Learning rate"),
    "weight_decay": (0, "Weight decay: an L2 penalty for adam and sgd, decoupled from the gradient for adamw"),
    "optimizer": ('adam', "Method that updates the weights"),
    "lr_schedule": ('constant', "Learning rate after the warm-up: constant; cosine (falls to 0 at the end of the run); step, which multiplies it by FACTOR (0.1) every UPDATES (1000) updates, such as step:500:0.3"),
    "warmup_steps": (0, "Updates during which the learning rate rises linearly to lr"),
    "clip_grad": (0, "Largest Euclidean norm of the gradient: a larger one is scaled down to it; 0: no limit"),
    "loss": ('cross-entropy', "Loss function of classes: cross-entropy, bce (binary cross-entropy of each class against all others) or focal (cross-entropy times (1 - p)^FLOAT); of regression, for graphs with targets: mse (squared error), mae (magnitude of the error), huber (squared up to one standard deviation, then its magnitude) or quantile; of links: bce or cross-entropy (of a link and its negatives), bpr (each link above its negatives), margin (by FLOAT), contrastive (the link among its negatives, at this temperature) or adversarial (hard negatives count more, by this temperature)"),
    "scale_targets": (True, "Learn targets of regression scaled to mean 0 and standard deviation 1 of the training nodes (on), or as they are (off). Scores and predictions have their own units in both"),
    "label_smoothing": (0, "Share of each target that is spread evenly over all classes"),
    "class_weights": (None, "Weights of the classes in the loss: one number per class (w0,w1,...), or balanced (the same total weight for every class); default: 1 for every class"),
    "accumulate": (1, "Batches per update: the gradient is the mean over the seeds of all of them"),
    "negatives": (1, "Negatives per link: pairs of its source and a random node, which the model is to score lower"),
    "negative_ends": ('destination', "The ends of links that negatives stand for, in training and in evaluation: destination, or both (as many random sources, too)"),
    "link_weights": (False, "Let the loss of a link count by the weight of its edge, in proportion to the mean weight"),
    "exclude": ('reverse', "Edges that the batches of a step of edges do not see, so that none is read off itself: self (the edges of all ranks), reverse (and those from their destinations to their sources), off"),
    "seed": (0, "Random seed for weights, sampling and dropout"),
    "checkpoint_every": (1, "Epochs between checkpoints; 0: write one only when a signal stops the run"),
    "cuda_graph": ('auto', "Record sampling and training of a step as CUDA graphs and replay them: auto (where batches can be padded to one shape: on GPUs, without a fanout of -1, and on several machines if neighbors travel over NCCL), on (report what prevents it and stop), off. Results are the same"),
    "sm_split": ('auto', "How a GPU's multiprocessors (SMs) are shared: auto (measured during the first steps), off (loading and training use all of them), or LOAD,TRAIN in percent, which may overlap (10,90 or 20,100). Results are the same"),
    "precision": ('f32', "Precision of training: f32, tf32 (for matrix products on GPUs), or bf16 (for activations and matrix products; weights, sums and evaluation stay f32)"),
    "eval_every": (1, "Epochs between evaluations; 0: evaluate only at the end"),
    "eval_fanouts": (None, "Evaluate on sampled neighbors with these fanouts (default: exactly, on all neighbors)"),
    "metric": ('auto', "Validation score that decides which model is best; auto: accuracy, rmse of regression, or mrr of links"),
    "eval_negatives": (100, "Random nodes against which a held-out link is ranked, the same in every evaluation; or all nodes of the type. Those with which the link's other end has an edge do not count"),
    "patience": (0, "Evaluations without improvement before the run ends; 0: never end early"),
    "device": ('auto', "Device that ranks compute on; auto: a GPU where there is one, else the CPU"),
    "ranks_per_machine": (0, "Ranks per virtual machine; virtual machines share no memory. 0: each host is one machine"),
    "gpu_memory": (0, "GPU memory per device that the graph may use, e.g. 60GiB (default: what training leaves free)"),
    "placement": ('auto', "Which memory holds the graph: auto (planned from heat and measured rates), host, replicate (every GPU), stripe (features are spread over the GPUs), in-order (GPUs get features, then indices, then indptr, as far as there is room), or TENSOR=R/S/H,..., the percentages of its rows that are replicated, striped and in host memory (features=10/40/50)"),
    "host_gather": ('auto', "How GPUs read feature rows in host memory: zero-copy, threads (CPU threads gather them), both, auto (both for more than 1 GiB where a rank has 4 cores)"),
    "replicate_graph": ('auto', "Keep the structure of the whole graph on every machine, so that only features are exchanged: auto (where it fits), on, off"),
    "exchange": ('auto', "How neighbors and feature rows travel between machines: nccl (from GPU to GPU; every rank needs one of its own), mpi (through host memory), or auto (nccl where it is possible). Results are the same"),
    "row_exchange_precision": ('f32', "Precision of feature rows between machines: f32, or bf16, which halves their bytes and rounds the rows of other machines' nodes"),
    "halo_cache": ('auto', "Memory per machine for neighbor lists and feature rows of other machines' nodes, e.g. 8GiB; 0: none; auto: a tenth of what is free. Results are the same"),
    "watchdog": (300, "Seconds that a rank may make no progress, once the graph is loaded, before the run is aborted; 0: no limit"),
    "trace": (None, "File for a timeline of all stages on all ranks (their first 4 million spans), for ui.perfetto.dev"),
    "log_every": (0, "Steps between log lines with the loss and the training accuracy; 0: one line per epoch"),
    "log_level": ('info', "Lowest level of messages on the terminal and in train.log; debug adds the stages of each epoch, off is silent"),
    "progress": ('auto', "How progress is shown: bar (on a terminal), lines (one every ten seconds), off, or auto"),
    "feature_format": ('stored', "Format of feature rows in memory and between machines: stored (as in the parts), i8, e4m3 or i4 (compressed while loading to 1 or 1/2 byte per feature and a scale per row; gathers decompress them)"),
    "sampler_device": ('auto', "Device that samples batches for a GPU: cuda; cpu (threads of the rank, for a structure larger than the GPU should read over PCIe); auto (cuda if GPU memory has neighbor lists, else what is measured to be faster). Results are the same"),
    "pipeline": (True, "Overlap sampling and gathering with training (on), or do one after the other (off). Results are the same"),
    "seeds": (None, "Train once with each of these seeds, in the folders seed-N of output, and report the mean and the standard deviation of the scores"),
    "on_nan": ('stop', "What happens if a loss is not finite: stop (and report the step, ranks and seeds), or skip that update"),
    "config": (None, "TOML file with the same names as the options"),
}
