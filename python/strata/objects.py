# SPDX-License-Identifier: Apache-2.0
"""Graphs of PyG, DGL and NetworkX, and arrays: as graphs of Strata, or as folders that `npy:DIR` reads."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strata import _arguments
from strata._arrays import host_array
from strata._attributes import RESERVED, HeldRows, are_targets
from strata.errors import InputError
from strata._types import RESERVED as RESERVED_OF_TYPES
from strata._typed_parts import TypedGraph, made_of
from strata._types import EdgeType, OneType
from strata.graph import Graph, from_tensors, from_types

_MASKS = {"train": ("train_mask",), "valid": ("val_mask", "valid_mask"), "test": ("test_mask",)}
_SPLITS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}
_LINKS_OF_SPLIT = ("edge_label", "pos_edge_label", "neg_edge_label")  # what RandomLinkSplit adds: seeds, no attributes of the edges


@dataclasses.dataclass
class Described:
    """A graph of another library by the names of from_tensors()."""

    arrays: dict[str, Any]
    nodes: dict[str, HeldRows] = dataclasses.field(default_factory=dict)  # other arrays with a row per node
    edges: dict[str, HeldRows] = dataclasses.field(default_factory=dict)
    whole: dict[str, Any] = dataclasses.field(default_factory=dict)
    names: Sequence[Any] | None = None  # of the nodes
    left_out: list[str] = dataclasses.field(default_factory=list)  # sentences

    def warn(self) -> None:
        for sentence in self.left_out:
            warnings.warn(sentence, stacklevel=_arguments.caller())


def from_pyg(data: Any, *, split: int | None = None, **options: Any) -> Graph:
    """from_tensors() of a torch_geometric.data.Data: edge_index, x, y, edge_weight, train_mask, val_mask, test_mask.

    Of a HeteroData, a graph of several types: NeighborLoader takes input_nodes=("paper", data["paper"].train_mask) and gives a
    HeteroData with the rows of every attribute of nodes and edges.

    Everything else in it reaches NeighborLoader's batches as with PyG: rows of other nodes' and edges' attributes (edge_attr, pos,
    time ...), and what belongs to the whole graph as it is. So does an x that is no matrix, in its own type.

    Args:
        split: the column of masks that have several, of a Data.
        options: those of from_tensors(), which come first: edge_weight=data.edge_attr.
    """
    if _is_hetero(data):
        if split is not None:
            raise InputError(
                f"split={split} chooses a column of a Data's masks",
                'Loaders take masks of a HeteroData themselves: input_nodes=("paper", data["paper"].train_mask[:, 0]).',
            )
        return from_types(*_types_of_pyg(data), **options)
    return _load(_of_pyg(data, split), options)


def from_dgl(graph: Any, *, x: Any = None, y: Any = None, edge_weight: Any = None, **options: Any) -> Graph:
    """from_tensors() of a homogeneous DGLGraph, with the masks train_mask, val_mask and test_mask of its ndata.

    Of a heterograph, a graph of several types, as from_pyg() makes one of a HeteroData: batches have the rows of all its data under
    their names, and x, y and edge_weight are not given.

    NeighborLoader's batches have rows of its other ndata and edata under their names; a warning names these.

    Args:
        x, y: names in ndata; by default "feat" or "x", and "label", "labels" or "y". Or arrays.
        edge_weight: a name in edata; by default "weight" or "w". Or an array.
        options: those of from_tensors().
    """
    if len(getattr(graph, "canonical_etypes", ())) > 1 and x is None and y is None and edge_weight is None:
        return from_types(*_types_of_dgl(graph), **options)
    return _load(_of_dgl(graph, x, y, edge_weight), options)


def from_networkx(
    graph: Any, x: str | None = None, y: str | None = None, edge_weight: Any = None, *, split: str | None = None, **options: Any
) -> Graph:
    """from_tensors() of a networkx graph, whose nodes get the numbers 0, 1 ... in its own order.

    An undirected graph gets each edge in both directions. A warning names attributes that are not read.

    Args:
        x, y: node attributes that hold features and labels.
        edge_weight: the edge attribute that holds weights; or an array, as from_tensors() takes it.
        split: the node attribute that says "train", "valid" (or "val") or "test"; nodes without one are in no split.
        options: those of from_tensors().
    """
    return _load(_of_networkx(graph, x, y, edge_weight, split), options)


def typed_graph(graph: Any) -> TypedGraph | None:
    """The arguments of from_types() of a graph of several types in memory; None: it is none."""
    if isinstance(graph, Graph):
        return made_of(graph) if graph._types is not None and graph._again is None else None
    if _is_hetero(graph):
        return _types_of_pyg(graph)
    if len(getattr(graph, "canonical_etypes", ())) <= 1:
        return None
    nodes, edges, edge_index = _types_of_dgl(graph)
    usual = {"feat": "x", "label": "y", "labels": "y"}
    renamed = {kind: OneType(one.size, {usual.get(n, n): v for n, v in one.attributes.items()}) for kind, one in nodes.items()}
    return renamed, edges, edge_index


def save(graph: Any, folder: str | os.PathLike[str], **options: Any) -> None:
    """Writes a graph in memory as a folder of arrays, which `npy:FOLDER` reads.

    What the folder does not hold is named in a warning. A folder that has anything in it is refused.

    Args:
        graph: a torch_geometric.data.Data, or what torch.load() reads of the processed/data.pt of a dataset with one graph; a
            DGLGraph; a networkx graph, whose nodes' names go to names.txt; a SciPy matrix, whose entry in row u and column v is
            an edge from u to v; or a dict of arrays, {"edge_index": ..., "x": ..., "y": ..., "train": ...}, by the names of
            from_tensors(), whose edges may be a SciPy matrix, too.
        options: those of from_pyg() (split), from_dgl() (x, y, edge_weight) or from_networkx() (x, y, edge_weight, split; by
            default the attributes "x", "y", "weight" and "split", where nodes or edges have them).
    """
    described = describe(graph, **options)
    described.warn()
    write(described, pathlib.Path(folder))


def describe(graph: Any, **options: Any) -> Described:
    """What save() writes, for which it has the same arguments; its arrays are NumPy's, on the CPU, and num_nodes is an integer."""
    kind = _library_of(graph)
    if kind == "dgl":
        described = _of_dgl(graph, **({"x": None, "y": None, "edge_weight": None} | options))
    elif kind == "networkx":
        described = _of_networkx(graph, **(_usual_names(graph) | options))
    elif isinstance(graph, Mapping):
        described = _of_arrays(graph, **options)
    elif hasattr(graph, "tocoo"):
        described = _of_arrays({"edge_index": graph}, **options)
    elif kind == "torch_geometric" or isinstance(graph, (list, tuple)):
        described = _of_pyg(graph, **({"split": None} | options))
    else:
        raise TypeError(
            f"the graph is a {type(graph).__name__}; give the name of one in files, a Data of PyG, a DGLGraph, a networkx graph, a graph "
            'of Strata, a SciPy matrix, or arrays: {"edge_index": ..., "x": ..., "y": ..., "train": ...}'
        )
    _only_what_npy_holds(described)
    for name, value in described.arrays.items():
        described.arrays[name] = int(value) if name == "num_nodes" else host_array(value, name)
    return described


def _load(described: Described, options: dict[str, Any]) -> Graph:
    described.warn()
    if options.get("val") is not None:
        described.arrays.pop("valid", None)
    of_nodes, of_edges = (options.pop(name, None) or {} for name in ("node_attrs", "edge_attrs"))
    if (weights := options.get("edge_weight")) is not None:
        described.edges.pop("edge_weight", None)
        described.arrays["edge_weight"] = weights
    graph = from_tensors(
        node_attrs={**described.nodes, **of_nodes}, edge_attrs={**described.edges, **of_edges}, **(described.arrays | options)
    )
    graph._attributes = dataclasses.replace(graph._attributes, whole=described.whole)
    return graph


def _library_of(graph: Any) -> str | None:
    modules = {kind.__module__.partition(".")[0] for kind in type(graph).__mro__}
    return next((name for name in ("torch_geometric", "dgl", "networkx") if name in modules), None)


def _require(graph: Any, library: str) -> None:
    """Refuses graphs of the other libraries, and names who takes them; and what has no edges, such as a list."""
    found = _library_of(graph)
    callers = {"torch_geometric": "from_pyg", "dgl": "from_dgl", "networkx": "from_networkx"}
    if found is not None and found != library:
        raise InputError(f"the graph is a {type(graph).__name__} of {found}", f"Call strata.{callers[found]}() with it.")
    if library != "torch_geometric" and not hasattr(graph, "edges"):
        raise InputError(
            f"a {type(graph).__name__} is no graph of {library}", "Give one graph; strata.from_tensors() takes arrays of edges."
        )


# ---- PyG ----


def _is_hetero(data: Any) -> bool:
    return any(kind.__name__ == "HeteroData" for kind in type(data).__mro__)


def _types_of_pyg(data: Any) -> tuple[dict[str, OneType], dict[EdgeType, OneType], dict[EdgeType, Any]]:
    """The arguments of from_types() of a HeteroData. Says what it leaves out."""
    nodes, edges, edge_index = {}, {}, {}
    for kind, store in zip(data.node_types, data.node_stores):
        if store.num_nodes is None:
            raise InputError(f"the number of nodes of {kind!r} is not known", f"Set data[{kind!r}].num_nodes, or give it an x.")
        nodes[kind] = OneType(store.num_nodes, _rows_of_store(kind, store, store.num_nodes))
    for kind, store in zip(data.edge_types, data.edge_stores):
        if "edge_index" not in store:
            raise InputError(f"{kind} has no edge_index", "Give a HeteroData without torch_geometric.transforms.ToSparseTensor.")
        edge_index[kind] = store.edge_index
        edges[kind] = OneType(store.edge_index.shape[1], _rows_of_store(kind, store, store.edge_index.shape[1]))
    return nodes, edges, edge_index


def _rows_of_store(kind: Any, store: Any, count: int) -> dict[str, Any]:
    rows = {}
    for name, value in store.items():
        if name in RESERVED_OF_TYPES or value is None or name.startswith(_LINKS_OF_SPLIT):
            continue
        if hasattr(value, "shape") and len(value.shape) and value.shape[0] == count:
            rows[name] = value
        elif name in ("x", "y", "edge_attr", "edge_weight"):
            raise InputError(f"{name} of {kind!r} has no row for each of {count}", "Give one row for each of them.")
        else:
            warnings.warn(f"{name} of {kind!r} is left out, because it has no row for each of {count}", stacklevel=_arguments.caller())
    return rows


def _of_pyg(data: Any, split: int | None) -> Described:
    _require(data, "torch_geometric")
    data = _only_data_of(data)
    if _is_hetero(data):
        raise InputError(
            "the HeteroData has several types of nodes or edges",
            "strata.from_pyg() and strata.partition() take it; here give one type: data.to_homogeneous().",
        )
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise InputError(
            f"the {type(data).__name__} has no edge_index",
            "Give a Data with edges: a HeteroData by to_homogeneous(), and without torch_geometric.transforms.ToSparseTensor.",
        )
    made = Described({"edge_index": edge_index, "num_nodes": data.num_nodes})
    for name, value in data.to_dict().items():
        if value is None or name in ("edge_index", "num_nodes"):
            continue
        if name in RESERVED and name != "y":
            made.left_out.append(f"{name} of the Data is left out, because batches have one of their own")
            continue
        _sort_in(made, data, name, value)
    _take_splits(made, {name: made.nodes[name].values for names in _MASKS.values() for name in names if name in made.nodes}, split)
    return made


def _only_data_of(data: Any) -> Any:
    """The Data of what a dataset of PyG writes, if that is one graph."""
    if isinstance(data, list):
        raise InputError(f"a list of {len(data)} graphs", "Give one of them, or all as one: Batch.from_data_list(graphs).")
    from torch_geometric.data import Data, Dataset

    if isinstance(data, Dataset):
        if len(data) != 1:
            raise InputError(f"a dataset of {len(data)} graphs", "Give one of them, or all as one: Batch.from_data_list(list(dataset)).")
        return data[0]
    if not isinstance(data, tuple):
        return data

    held, slices = (*data, None)[:2]
    starts = next(iter(slices.values()), ()) if isinstance(slices, dict) else ()
    if isinstance(held, dict):
        held = Data.from_dict(held)
    if len(starts) > 2 or not hasattr(held, "to_dict"):
        graphs = f"{len(starts) - 1} graphs" if len(starts) > 2 else "no single graph"
        raise InputError(
            f"this is the file of a dataset, with {graphs}", "Save one of its graphs: torch.save(dataset[0], 'data.pt')."
        )
    return held


def _sort_in(made: Described, data: Any, name: str, value: Any) -> None:
    """One attribute of a Data to where it belongs."""
    is_rows = hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0
    of_nodes = is_rows and data.is_node_attr(name)
    dim = data.__cat_dim__(name, value) if is_rows else 0
    if name == "x" and is_rows and value.ndim == 2:
        made.arrays["x"] = value
    elif name == "y" and is_rows and (of_nodes or len(value) != 1):
        made.arrays["y"] = _column(value)
    elif name == "edge_weight" and is_rows:
        made.arrays["edge_weight"] = _column(value)
    elif of_nodes:
        made.nodes[name] = HeldRows(value, dim)
    elif is_rows and data.is_edge_attr(name):
        made.edges[name] = HeldRows(value, dim)
    elif not is_rows and (data.is_node_attr(name) or data.is_edge_attr(name)):
        made.left_out.append(f"{name} of the Data is left out: it is a {type(value).__name__}, and no array with a row per node or edge")
    else:
        made.whole[name] = value


def _column(value: Any) -> Any:
    return value.reshape(-1) if value.ndim == 2 and value.shape[1] == 1 else value


def _take_splits(made: Described, found: dict[str, Any], column: int | None) -> None:
    """Masks of nodes as splits. Those with nodes in common are left out, because a node of Strata's is in one split."""
    import torch

    masks: dict[str, Any] = {}
    for split, names in _MASKS.items():
        for name in [name for name in names if name in found][:1]:
            mask = torch.as_tensor(found[name])
            if mask.dim() == 2:
                if column is None:
                    raise InputError(f"{name} has several columns", "Choose one of them: split=0.")
                mask = mask[:, column]
            masks[split] = mask.bool()
    shared = [(a, b) for a in masks for b in masks if a < b and bool((masks[a] & masks[b].to(masks[a].device)).any())]
    for a, b in shared:
        made.left_out.append(
            f"the masks {a} and {b} have nodes in common, and are left out as splits, which share no node: give loaders the masks "
            "themselves, input_nodes=data.train_mask"
        )
    made.arrays |= {split: mask for split, mask in masks.items() if not any(split in pair for pair in shared)}


# ---- DGL ----


def _of_dgl(graph: Any, x: Any, y: Any, edge_weight: Any) -> Described:
    import torch

    _require(graph, "dgl")
    if not graph.is_homogeneous:
        raise InputError("the DGLGraph has several types of nodes or edges", "Give one type: dgl.to_homogeneous(graph, ndata=...).")
    made = Described({"edge_index": torch.stack(graph.edges(order="eid")), "num_nodes": graph.num_nodes()})
    ndata, edata = dict(graph.ndata), dict(graph.edata)
    for array, given, usual, frame in (
        ("x", x, ("feat", "x"), ndata),
        ("y", y, ("label", "labels", "y"), ndata),
        ("edge_weight", edge_weight, ("weight", "w"), edata),
    ):
        name = next((key for key in usual if key in frame), None) if given is None else given
        if isinstance(name, str):
            if name not in frame:
                raise InputError(f"{array}={name!r} is not there; there are {', '.join(map(repr, frame)) or 'none'}", "Give one of them.")
            made.arrays[array] = _column(frame.pop(name)) if array != "x" else frame.pop(name)
        elif name is not None:
            made.arrays[array] = name
    masks = {name: ndata.pop(name) for names in _MASKS.values() for name in names if name in ndata}
    _take_splits(made, masks, None)
    for what, frame, held in (("ndata", ndata, made.nodes), ("edata", edata, made.edges)):
        kept = {name: value for name, value in frame.items() if name not in RESERVED and not name.startswith("_")}
        held |= {name: HeldRows(value) for name, value in kept.items()}
        if kept:
            made.left_out.append(
                f"{what} {', '.join(map(repr, kept))} {'is' if len(kept) == 1 else 'are'} not read as features, labels or weights, which "
                "x=, y= and edge_weight= name; only batches of NeighborLoader have their rows"
            )
    return made


def _types_of_dgl(graph: Any) -> tuple[dict[str, OneType], dict[EdgeType, OneType], dict[EdgeType, Any]]:
    """The arguments of from_types() of a heterograph."""
    import torch

    nodes = {kind: OneType(graph.num_nodes(kind), dict(graph.nodes[kind].data)) for kind in graph.ntypes}
    edges, edge_index = {}, {}
    for kind in graph.canonical_etypes:
        edges[kind] = OneType(graph.num_edges(kind), dict(graph.edges[kind].data))
        edge_index[kind] = torch.stack(graph.edges(etype=kind, order="eid")).cpu()
    return nodes, edges, edge_index


# ---- NetworkX ----


def _of_networkx(graph: Any, x: str | None, y: str | None, edge_weight: Any, split: str | None) -> Described:
    import numpy

    _require(graph, "networkx")
    number = {node: i for i, node in enumerate(graph.nodes)}
    edges = [(number[a], number[b]) for a, b in graph.edges()]
    opposite = [] if graph.is_directed() else [i for i, (a, b) in enumerate(edges) if a != b]
    edges += [edges[i][::-1] for i in opposite]
    made = Described({"edge_index": numpy.array(edges, dtype="int64").reshape(-1, 2).T, "num_nodes": len(number)}, names=list(number))
    nodes = [(node, graph.nodes[node]) for node in graph.nodes]
    if x:
        made.arrays["x"] = _attributes_of(nodes, x, "node").astype("float32").reshape(len(number), -1)
    if y:
        made.arrays["y"] = _attributes_of(nodes, y, "node")
    if isinstance(edge_weight, str):
        weights = _attributes_of((((a, b), held) for a, b, held in graph.edges(data=True)), edge_weight, "edge")
        made.arrays["edge_weight"] = numpy.concatenate([weights, weights[numpy.array(opposite, dtype="int64")]])
    elif edge_weight is not None:
        made.arrays["edge_weight"] = edge_weight
    if split:
        made.arrays |= _splits_of(nodes, split)
    for what, holders, read in (
        ("node", (held for _, held in nodes), (x, y, split)),
        ("edge", (held for *_, held in graph.edges(data=True)), (edge_weight if isinstance(edge_weight, str) else None,)),
    ):
        names = [name for name in dict.fromkeys(name for held in holders for name in held) if name not in read]
        if names:
            made.left_out.append(
                f"{what} {'attribute' if len(names) == 1 else 'attributes'} {', '.join(map(repr, names))} "
                f"{'is' if len(names) == 1 else 'are'} not read: x=, y=, split= and edge_weight= name what is"
            )
    return made


def _attributes_of(holders: Iterable[tuple[Any, Any]], key: str, what: str) -> Any:
    """The attribute of each node or edge, one row each."""
    import numpy

    values = []
    for holder, held in holders:
        if key not in held:
            raise InputError(f"{what} {holder!r} has no attribute {key!r}", f"Give every {what} one, or leave it out.")
        values.append(held[key])
    return numpy.array(values)


def _splits_of(nodes: list[tuple[Any, Any]], key: str) -> dict[str, Any]:
    import numpy

    masks = {split: numpy.zeros(len(nodes), dtype=bool) for split in _MASKS}
    for i, (node, held) in enumerate(nodes):
        word = held.get(key)
        if word is None or word in ("", "none"):
            continue
        if word not in _SPLITS:
            raise InputError(f"node {node!r} has the {key} {word!r}", "Known are train, valid (or val) and test.")
        masks[_SPLITS[word]][i] = True
    return {split: mask for split, mask in masks.items() if mask.any()}


def _usual_names(graph: Any) -> dict[str, Any]:
    """The names that the attributes of a networkx graph usually have, as far as any node or edge has them."""
    of_nodes = {name for _, held in graph.nodes(data=True) for name in held}
    of_edges = {name for *_, held in graph.edges(data=True) for name in held}
    names: dict[str, Any] = {name: name if name in of_nodes else None for name in ("x", "y", "split")}
    return names | {"edge_weight": "weight" if "weight" in of_edges else None}


# ---- Arrays ----

_ARRAYS = ("edge_index", "x", "y", "edge_weight", "train", "valid", "test", "num_nodes")


def _of_arrays(given: Mapping[str, Any]) -> Described:
    import numpy

    arrays = {"valid" if name == "val" else name: value for name, value in given.items() if value is not None}
    if unknown := [name for name in arrays if name not in _ARRAYS]:
        raise InputError(f"{unknown[0]!r} is no array of a graph", f"Known are {', '.join(_ARRAYS)}.")
    if "edge_index" not in arrays:
        raise InputError("there is no edge_index", 'Give the edges as an array [2, E], or as a SciPy matrix: {"edge_index": ..., ...}.')
    if hasattr(arrays["edge_index"], "tocoo"):
        matrix = arrays["edge_index"].tocoo()
        if matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"the matrix has the shape {matrix.shape}", "Give a square one, with a row and a column per node.")
        arrays["edge_index"] = numpy.stack([matrix.row, matrix.col]).astype("int64")
        arrays.setdefault("num_nodes", matrix.shape[0])
        if (matrix.data != 1).any():
            arrays.setdefault("edge_weight", matrix.data)
    return Described(arrays)


# ---- Folders ----


def _only_what_npy_holds(made: Described) -> None:
    """Takes out what strata-partition cannot read."""
    splits = {name for names in _MASKS.values() for name in names}
    others = [*(name for name in made.nodes if name not in splits), *made.edges, *made.whole]
    made.left_out = [sentence for sentence in made.left_out if "only batches of NeighborLoader" not in sentence]
    if "y" in made.arrays and are_targets(host_array(made.arrays["y"], "y")):
        made.arrays["targets"] = made.arrays.pop("y")
    if others:
        made.left_out.append(f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} left out, which strata-partition does not read")


def write(made: Described, folder: pathlib.Path) -> None:
    """Writes what describe() returned: beside its place, and then there at once."""
    import numpy

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty", "Give another folder, or remove it first.")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        for name, value in made.arrays.items():
            numpy.save(unfinished / f"{name}.npy", numpy.int64(value) if name == "num_nodes" else value)
        if made.names is not None:
            (unfinished / "names.txt").write_text("".join(f"{name}\n" for name in made.names))
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
