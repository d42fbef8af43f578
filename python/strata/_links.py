# SPDX-License-Identifier: Apache-2.0
"""Links as their user gives them, in the graph's numbers, and the edges that a step with them leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from strata import _core
from strata._arrays import host_array, ids_array, list_of_ids, to_numpy
from strata._process import process, together
from strata._types import EdgeType
from strata.errors import InputError
from strata.graph import Graph

if TYPE_CHECKING:
    import numpy

MOST = (1 << 63) - 1


class Links(NamedTuple):
    """Links as their user gives them."""

    relation: EdgeType | None  # None: the graph has one relation
    ids: numpy.ndarray | None  # int64 [links] positions among the relation's edges
    pairs: numpy.ndarray | None  # int64 [2, links] nodes of the relation's types; None, with ids: all edges

    @property
    def size(self) -> int:
        values = self.ids if self.pairs is None else self.pairs[0]
        assert values is not None
        return len(values)

    def at(self, positions: numpy.ndarray) -> Any:
        """Some of them, as edge_label_index."""
        of_type = self.pairs[:, positions] if self.ids is None and self.pairs is not None else cast(Any, self.ids)[positions]
        return of_type if self.relation is None else (self.relation, of_type)


class Relation(NamedTuple):
    """Where a relation lies in the graph's numbers."""

    first_edge: int
    num_edges: int
    sources: tuple[int, int]  # the first node of the type, and how many it has
    destinations: tuple[int, int]


def relation_of(graph: Graph, edge: EdgeType | None) -> Relation:
    types = graph._types
    if types is None or edge is None:
        nodes = (0, graph.num_nodes)
        return Relation(0, graph.num_edges, nodes, nodes)
    first = {kind: (offset, types.nodes[kind].size) for kind, offset in zip(types.node_types, types.node_offsets)}
    return Relation(types.edge_offsets[types.edge_types.index(edge)], types.edges[edge].size, first[edge[0]], first[edge[2]])


def links_of(graph: Graph, edge_label_index: Any) -> Links:
    """Reads edge_label_index as PyG's LinkNeighborLoader does; also of ids or a mask of edges."""
    edge: EdgeType | None = None
    if graph._types is not None:
        if edge_label_index is None or not isinstance(edge_label_index, (tuple, list)) or not len(edge_label_index):
            raise InputError(
                "edge_label_index names no relation",
                f"Give one of {graph.edge_types}, or one with pairs: ({graph.edge_types[0]}, edge_label_index).",
            )
        named = isinstance(edge_label_index[0], str)
        key, given = (edge_label_index, None) if named else edge_label_index
        edge, edge_label_index = graph._types.edge_type(key), given
    elif isinstance(edge_label_index, tuple) and edge_label_index and isinstance(edge_label_index[0], (str, tuple)):
        raise InputError(
            "edge_label_index names a relation", "This graph has one relation: give pairs [2, n], or ids of edges."
        )
    return Links(edge, *_ids_or_pairs(edge_label_index, relation_of(graph, edge), graph._types is None))


def _ids_or_pairs(given: Any, relation: Relation, may_lack_edges: bool) -> tuple[numpy.ndarray | None, numpy.ndarray | None]:
    """Parts of one type may lack edges of their input, whose ids then exceed their number; ends_of() refuses what is no edge."""
    if given is None:
        return None, None
    array = host_array(given, "edge_label_index")
    if array.dtype == bool:
        if array.ndim != 1 or len(array) < relation.num_edges or (len(array) > relation.num_edges and not may_lack_edges):
            raise InputError(f"a mask of shape {array.shape} for {relation.num_edges} edges", "Give one truth value per edge.")
        return array.nonzero()[0], None
    array = ids_array(array, "edge_label_index")
    if array.ndim == 1:
        if len(array) and not may_lack_edges and not 0 <= array.min() <= array.max() < relation.num_edges:
            raise IndexError(f"edge_label_index has {array.min()} to {array.max()}, but there are {relation.num_edges} edges")
        return array, None
    if array.ndim != 2 or array.shape[0] != 2:
        raise InputError(f"edge_label_index has the shape {array.shape}", "Give pairs [2, n], or ids of edges [n].")
    for row, (_, count), end in zip(array, (relation.sources, relation.destinations), ("sources", "destinations")):
        if len(row) and not 0 <= row.min() <= row.max() < count:
            raise IndexError(
                f"{end} in edge_label_index are {row.min()} to {row.max()}, but there are {count} nodes of their type"
            )
    return None, array


def all_of(graph: Graph, links: Links) -> Links:
    """The same, of all edges of the relation if none are named. Collective: ranks name links in the same way, or all raise."""
    kind = "pairs" if links.pairs is not None else "all edges" if links.ids is None else "ids of edges"
    kind += "" if links.relation is None else f" of {links.relation}"
    first_rank_has = process().broadcast(kind, 0) or kind

    def compare() -> None:
        if kind != first_rank_has:
            raise InputError(f"rank 0 gives {first_rank_has}, rank {process().rank} {kind}", "Give all ranks the same links.")

    together(compare)
    if links.ids is not None or links.pairs is not None:
        return links
    first = relation_of(graph, links.relation).first_edge
    found = to_numpy(_core.edges_between(graph._core, *edges_of(graph, links.relation)))
    return links._replace(ids=found - first)


def edges_of(graph: Graph, edge: EdgeType | None) -> tuple[int, int]:
    """The first edge of a relation, and the one behind its last."""
    relation = relation_of(graph, edge)
    return relation.first_edge, MOST if graph._types is None else relation.first_edge + relation.num_edges


class Excluded(NamedTuple):
    """The edges that a step leaves out: those of a range, and the one of each link."""

    first: int
    end: int
    ids: numpy.ndarray | None  # int64 [links]; None: all of the range that have the ends


def own_edges(graph: Graph, links: Links) -> Excluded:
    first = relation_of(graph, links.relation).first_edge
    return Excluded(*edges_of(graph, links.relation), None if links.ids is None else links.ids + first)


def reverse_edges(graph: Graph, links: Links, reverse: Any) -> Excluded | None:
    """What `reverse` names; None: nothing."""
    if reverse is False:
        return None
    if graph._types is None or links.relation is None:
        if reverse is None or reverse is True:
            return Excluded(0, MOST, None)
        return Excluded(0, MOST, _reverse_ids(graph, links, reverse))
    edge = _reverse_relation(graph, links.relation) if reverse is None or reverse is True else None
    if edge is None and reverse is None:
        return None
    if edge is None and reverse is True:
        raise InputError(f"no relation is the reverse of {links.relation}", "Name it: reverse=(source, name, destination).")
    edge = edge or graph._types.edge_type(reverse)
    found = relation_of(graph, edge)
    if (edge[0], edge[2]) != (links.relation[2], links.relation[0]):
        raise InputError(
            f"{edge} does not go from {links.relation[2]!r} to {links.relation[0]!r}",
            "Name the reverse of the links' relation.",
        )
    ids = None
    if links.ids is not None and edge != links.relation:
        if found.num_edges != graph._types.edges[links.relation].size:
            raise InputError(
                f"{edge} has {found.num_edges} edges, and {links.relation} has {graph._types.edges[links.relation].size}",
                "Edges at the same position must be each other's reverse; give links as pairs, whose reverses are found by their ends.",
            )
        ids = links.ids + found.first_edge
    return Excluded(found.first_edge, found.first_edge + found.num_edges, ids)


def _reverse_ids(graph: Graph, links: Links, reverse: Any) -> numpy.ndarray:
    of_edges = list_of_ids(reverse, "reverse")
    if links.ids is None:
        raise InputError(
            "reverse maps ids of edges, but links are given as pairs", "Give links as ids of edges, or leave reverse out."
        )
    if len(of_edges) <= (links.ids.max() if links.size else -1):
        raise InputError(
            f"reverse has {len(of_edges)} ids for {graph.num_edges} edges", "Give one per edge, -1 where there is none."
        )
    found: numpy.ndarray = of_edges[links.ids]
    return found


def _reverse_relation(graph: Graph, edge: EdgeType) -> EdgeType | None:
    """The relation itself within a type, or the one that torch_geometric.transforms.ToUndirected makes, with as many edges."""
    if edge[0] == edge[2]:
        return edge
    assert graph._types is not None
    name = edge[1][4:] if edge[1].startswith("rev_") else f"rev_{edge[1]}"
    other = (edge[2], name, edge[0])
    edges = graph._types.edges
    return other if other in edges and edges[other].size == edges[edge].size else None


def ends_of(graph: Graph, links: Links, original: bool | None) -> tuple[Any, Any]:
    """The graph's numbers of the links' ends. Collective."""
    relation = relation_of(graph, links.relation)
    if links.pairs is None:
        assert links.ids is not None
        sources, destinations = _core.ends_of(graph._core, links.ids + relation.first_edge)
        return to_numpy(sources), to_numpy(destinations)
    sources = _of_graph(graph, links.pairs[0] + relation.sources[0], original)
    return sources, destinations_of(graph, links.relation, links.pairs[1], original)


def destinations_of(graph: Graph, edge: EdgeType | None, ids: numpy.ndarray, original: bool | None) -> numpy.ndarray:
    """The graph's numbers of nodes of the destinations' type. Collective."""
    return _of_graph(graph, ids + relation_of(graph, edge).destinations[0], original)


def _of_graph(graph: Graph, ids: numpy.ndarray, original: bool | None) -> numpy.ndarray:
    if graph.is_renumbered and (original or graph._types is not None):
        return graph.ids(ids).numpy()
    return ids
