# SPDX-License-Identifier: Apache-2.0
"""Ranks of edges among candidates for one of their ends, in tiles, of which nothing but ranks is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from strata.errors import InputError
from strata.nn import ops
from strata.nn.decoders import makes_queries

# Products of matrices of one shape add up in one order, so that an edge's rank does not depend on the edges beside it.
_QUERIES = 512
_CANDIDATES = {"cpu": 4096, "cuda": 8192}
_CHECKED = 1 << 16  # rows at a time
_OWN_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 28}  # of the rows of edges' own candidates at a time
# Where scores are products: edges of a group, and scores at a time. On a CPU one group is enough to keep it busy.
_OF_GROUP = 256
_SCORES = {"cpu": 1 << 22, "cuda": 1 << 25}


class _Scorer(Protocol):
    def against(self, rows: Tensor, relation: Tensor | None, candidates: Tensor, side: str = "tail") -> Tensor: ...


class KnownEdges:
    """Edges that are no wrong answers, such as those of training, validation and test: lists of tails and of heads.

        known = KnownEdges(*(torch.cat(of_splits) for of_splits in zip(train, valid, test)))

    It takes 16 bytes per edge and side, and 16 per pair of node and relation that occurs.

    Args:
        head, relation, tail: int64 [E] each, on the device where ranks are counted. `relation` may be None if there is only one.
    """

    def __init__(self, head: Tensor, relation: Tensor | None, tail: Tensor) -> None:
        self.num_edges = len(head)
        self._num_relations = 1 if relation is None or not len(relation) else int(relation.max()) + 1
        relation = torch.zeros_like(head) if relation is None else relation
        if not head.shape == relation.shape == tail.shape or head.dim() != 1:
            raise InputError(
                f"head is {list(head.shape)}, relation {list(relation.shape)}, tail {list(tail.shape)}",
                "Give int64 [E] of each.",
            )
        self._lists = {"tail": self._list(head, relation, tail), "head": self._list(tail, relation, head)}

    def _list(self, known: Tensor, relation: Tensor, others: Tensor) -> _Lists:
        keys = known * self._num_relations + relation
        others, order = others.sort(stable=True)
        keys, by_key = keys[order].sort(stable=True)
        distinct, counts = torch.unique_consecutive(keys, return_counts=True)
        return _Lists(distinct, pad(counts.cumsum(0), (1, 0)), others[by_key])

    def of(self, nodes: Tensor, relation: Tensor | None, side: str) -> tuple[Tensor, Tensor]:
        """Places in `nodes` and, for each, the known other ends: (int64 [n], int64 [n])."""
        lists = self._lists[side]
        if not len(lists.keys):
            return nodes.new_empty(0), nodes.new_empty(0)
        relation = torch.zeros_like(nodes) if relation is None else relation
        keys = nodes * self._num_relations + relation
        found = torch.searchsorted(lists.keys, keys).clamp(max=len(lists.keys) - 1)
        is_there = (lists.keys[found] == keys) & (relation < self._num_relations)
        counts = torch.where(is_there, lists.ends[found + 1] - lists.ends[found], 0)
        places = torch.arange(len(nodes), device=nodes.device).repeat_interleave(counts)
        behind = torch.arange(len(places), device=nodes.device) - (counts.cumsum(0) - counts)[places]
        return places, lists.others[lists.ends[found[places]] + behind]


class _Lists(NamedTuple):
    keys: Tensor  # int64, distinct and ascending
    ends: Tensor  # int64 [keys + 1]
    others: Tensor  # int64 [edges], of equal keys ascending


@torch.no_grad()
def link_ranks(
    decoder: _Scorer,
    rows: Tensor | tuple[Tensor, Tensor],
    head: Tensor,
    relation: Tensor | None,
    tail: Tensor,
    *,
    side: str = "tail",
    candidates: Tensor | None = None,
    groups: Tensor | None = None,
    known: KnownEdges | None = None,
) -> Tensor:
    """The rank of each edge among other ends that it might have, from 1, float64 [E]; ties count half.

    Scores exist for a tile of edges and candidates at a time. The edge itself is not among its candidates, however often they have its
    end. An edge's rank does not depend on the edges beside it, so that ranks may share them as they like.

    Args:
        decoder: of strata.nn, or an object with its method against(); in evaluation mode, if it has dropout.
        rows: of all nodes [N, columns], what the model gave, on the device where to compute; (rows of heads, rows of tails) if
            these are nodes of two types.
        head, relation, tail: int64 [E] each; `relation` may be None if there is only one.
        side: "tail" or "head", the end that is looked for.
        candidates: None: all nodes; int64 [K]: these, for all edges; int64 [E, K]: K of each edge. Those that edges share cost the
            least, where scores are products of matrices: DotProduct, DistMult, ComplEx.
        groups: int64 [E], where candidates are [groups, K]: those of its group for each edge.
        known: edges that are left out of the candidates (the "filtered" setting).
    """
    if side not in ("head", "tail"):
        raise InputError(f"side is {side!r}", 'Choose "tail" or "head", the end that is looked for.')
    of_heads, of_tails = rows if isinstance(rows, tuple) else (rows, rows)
    device = of_heads.device
    given = (("head", head), ("relation", relation), ("tail", tail), ("candidates", candidates), ("groups", groups))
    for name, tensor in given:
        if tensor is not None and tensor.device != device:
            raise InputError(f"{name} lies on {tensor.device}, the rows on {device}", "Move it to the rows.")
    if groups is not None and (candidates is None or candidates.dim() != 2 or groups.shape != head.shape):
        raise InputError("groups and candidates do not fit", "Give candidates [groups, K], and the group of each edge.")
    if not all(_are_finite(table) for table in ((of_heads,) if of_tails is of_heads else (of_heads, of_tails))):
        raise InputError("rows of nodes are not finite", "Find out where the model diverged; such rows have no ranks.")
    # Kernels read these types, and what rows are compared with is float32 in any case.
    of_heads, of_tails = (rows if rows.dtype in (torch.float32, torch.bfloat16) else rows.float() for rows in (of_heads, of_tails))
    table, of_side = (
        (of_heads, of_tails) if side == "tail" else (of_tails, of_heads),
        "cuda" if device.type == "cuda" else "cpu",
    )
    edges = _Edges(decoder, *table, side, known, of_side)
    ends = (head, relation, tail) if side == "tail" else (tail, relation, head)
    if candidates is None or candidates.dim() == 1:
        ranks = edges.among_shared(*ends, candidates)
    elif groups is not None:
        ranks = edges.among_groups(*ends, candidates, groups)
    else:
        ranks = edges.among_own(*ends, candidates)
    if bool(ranks.isnan().any()):
        raise InputError(
            "a score is nan", "Find out where the decoder's weights stopped being numbers; a score of nan has no rank."
        )
    return ranks


class _Counts:
    """How many candidates score above each edge, and as it does; those of a score of nan are not counted."""

    def __init__(self, own: Tensor) -> None:
        self.own = own.contiguous()
        self.above = torch.zeros(len(own), dtype=torch.int64, device=own.device)
        self.equal = torch.zeros_like(self.above)

    def add(self, scores: Tensor, num_candidates: int) -> _Counts:
        """Counts the first columns of scores [E, ..]."""
        if len(self.own):
            ops._kernels.count_scores(scores, num_candidates, self.own, self.above, self.equal, ops._stream(scores))
        return self

    def ranks(self) -> Tensor:
        """float64 [E]; nan where the edge's own score is."""
        return (self.above.double() + self.equal.double() / 2 + 1).masked_fill(self.own.isnan(), torch.nan)


class _Edges(NamedTuple):
    decoder: Any
    rows: Tensor  # of the ends that are known
    others: Tensor  # of those that are looked for
    side: str
    known: KnownEdges | None
    device: str

    def among_own(self, nodes: Tensor, relation: Tensor | None, others: Tensor, candidates: Tensor) -> Tensor:
        """The ranks of edges among candidates [E, K] of their own."""
        makes = makes_queries(self.decoder)
        scores_of = self._products_of_own if makes else self._scores_of_own
        most = _SCORES[self.device] if makes else _OWN_ELEMENTS[self.device] // max(1, self.others.shape[1])
        found = []
        for piece in _pieces(len(nodes), max(1, most // (candidates.shape[1] + 1))):
            of_piece = nodes[piece], None if relation is None else relation[piece]
            own, scores = scores_of(*of_piece, others[piece], candidates[piece])
            if self.known is not None:
                scores.masked_fill_(self._is_known(*of_piece, candidates[piece]), torch.nan)
            found.append(_Counts(own).add(scores, candidates.shape[1]).ranks())
        return _joined(found, nodes)

    def _scores_of_own(self, nodes: Tensor, relation: Tensor | None, others: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        # The true end is the first candidate, so that it is scored as the others are.
        rows = self.others[torch.cat([others.unsqueeze(1), ids], dim=1)].float()
        scores: Tensor = self.decoder.against(self.rows[nodes].float(), relation, rows, self.side).float()
        return scores[:, 0], scores[:, 1:].masked_fill(ids == others.unsqueeze(1), torch.nan)

    def _products_of_own(self, nodes: Tensor, relation: Tensor | None, others: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        queries = self.decoder.queries(self.rows[nodes].float(), relation, self.side)
        return _products(queries, self.others, others.unsqueeze(1)).squeeze(1), _products(queries, self.others, ids, others)

    def _is_known(self, nodes: Tensor, relation: Tensor | None, ids: Tensor) -> Tensor:
        assert self.known is not None
        places, known = self.known.of(nodes, relation, self.side)
        size = len(self.others)
        pairs = places * size + known  # ascending
        wanted = torch.arange(len(nodes), device=ids.device).unsqueeze(1) * size + ids
        if not len(pairs):
            return torch.zeros_like(ids, dtype=torch.bool)
        at = torch.searchsorted(pairs, wanted).clamp(max=len(pairs) - 1)
        return pairs[at] == wanted

    def among_shared(self, nodes: Tensor, relation: Tensor | None, others: Tensor, candidates: Tensor | None) -> Tensor:
        """The ranks of edges among all nodes, or candidates [K] of all edges."""
        if candidates is not None and self._fits(len(candidates)):
            return self.among_groups(nodes, relation, others, candidates.unsqueeze(0), torch.zeros_like(nodes))
        found = []
        for piece in _pieces(len(nodes), _QUERIES):
            of_piece = nodes[piece], None if relation is None else relation[piece], others[piece]
            found.append(self._among_all(*of_piece, candidates, _CANDIDATES[self.device]))
        return _joined(found, nodes)

    def _fits(self, num_candidates: int) -> bool:
        """Whether one product has the scores of all candidates."""
        return makes_queries(self.decoder) and _OF_GROUP * (_width(num_candidates) + _OF_GROUP) <= _SCORES[self.device]

    def among_groups(
        self, nodes: Tensor, relation: Tensor | None, others: Tensor, candidates: Tensor, groups: Tensor
    ) -> Tensor:
        """The ranks of edges among candidates [groups, K] of their groups."""
        if not self._fits(candidates.shape[1]):
            return self._group_by_group(nodes, relation, others, candidates, groups)
        pieces = _Pieces.of(groups, len(candidates))
        at_a_time = 1
        if self.device == "cuda":
            at_a_time = max(1, _SCORES["cuda"] // (_OF_GROUP * (_width(candidates.shape[1]) + _OF_GROUP)))
        ranks = torch.empty(len(nodes), dtype=torch.float64, device=nodes.device)
        for piece in _pieces(len(pieces.groups), at_a_time):
            edges = pieces.edges[piece]
            places = edges[edges >= 0]
            of_piece = nodes[places], None if relation is None else relation[places], others[places]
            ranks[places] = self._among_sets(*of_piece, candidates[pieces.groups[piece]], edges >= 0, at_a_time)
        return ranks

    def _group_by_group(
        self, nodes: Tensor, relation: Tensor | None, others: Tensor, candidates: Tensor, groups: Tensor
    ) -> Tensor:
        ranks = torch.empty(len(nodes), dtype=torch.float64, device=nodes.device)
        order = groups.argsort(stable=True)
        sizes = torch.bincount(groups, minlength=len(candidates)).tolist()
        for places, of_group in zip(torch.split(order, sizes), candidates):
            of_edges = nodes[places], None if relation is None else relation[places], others[places]
            ranks[places] = self.among_shared(*of_edges, of_group)
        return ranks

    def _among_sets(
        self,
        nodes: Tensor,
        relation: Tensor | None,
        others: Tensor,
        candidates: Tensor,
        is_there: Tensor,
        at_a_time: int,
    ) -> Tensor:
        """The ranks of edges among sets of candidates [S, K], by one product of `at_a_time` matrices.

        is_there: bool [S, _OF_GROUP], where the edges belong.
        """
        sets, num_candidates = candidates.shape
        width, places = _width(num_candidates), is_there.view(-1).nonzero().squeeze(1)
        known_rows = self.decoder.queries(self.rows[nodes].float(), relation, self.side)
        queries = known_rows.new_zeros(at_a_time * _OF_GROUP, known_rows.shape[1])
        queries[places] = known_rows
        # The true ends are further candidates, so that they are scored as the others are.
        ids = candidates.new_zeros(at_a_time, width + _OF_GROUP)
        ids[:sets, :num_candidates] = candidates
        ids[places // _OF_GROUP, width + places % _OF_GROUP] = others
        tile = self.others[ids].float()
        scores = torch.bmm(queries.view(at_a_time, _OF_GROUP, -1), tile.transpose(1, 2))
        counts = _Counts(scores[:sets, :, width:].diagonal(dim1=1, dim2=2).reshape(-1))
        scores = scores[:sets].flatten(0, 1)
        edges, columns = self._masked(nodes, relation, others, candidates, places // _OF_GROUP)
        scores[places[edges], columns] = torch.nan
        return counts.add(scores, num_candidates).ranks()[places]

    def _among_all(
        self, nodes: Tensor, relation: Tensor | None, others: Tensor, candidates: Tensor | None, at_a_time: int
    ) -> Tensor:
        """The ranks of up to _QUERIES edges among all nodes, or candidates [K] of all edges."""
        count, num_candidates = len(nodes), len(self.others) if candidates is None else len(candidates)
        at_a_time = max(_QUERIES, min(at_a_time, -(-num_candidates // _QUERIES) * _QUERIES))
        queries = _padded(self.rows[nodes].float(), _QUERIES)
        relation_of = None if relation is None else pad(relation, (0, _QUERIES - count))

        def scores_of(tile: Tensor) -> Tensor:
            scores: Tensor = self.decoder.against(queries, relation_of, _padded(tile.float(), at_a_time), self.side)
            return scores.float().contiguous()

        counts = _Counts(scores_of(self.others[others])[:count, :count].diagonal())
        of_all = None if candidates is None else candidates.unsqueeze(0)
        masked = self._masked(nodes, relation, others, of_all, torch.zeros_like(nodes))
        bounds = torch.searchsorted(
            masked[1], torch.arange(0, num_candidates + at_a_time, at_a_time, device=nodes.device)
        ).tolist()
        for number, first in enumerate(range(0, num_candidates, at_a_time)):
            ids = slice(first, min(first + at_a_time, num_candidates))
            scores = scores_of(self.others[ids] if candidates is None else self.others[candidates[ids]])
            places, columns = (part[bounds[number] : bounds[number + 1]] for part in masked)
            scores[places, columns - first] = torch.nan
            counts.add(scores, ids.stop - first)
        return counts.ranks()

    def _masked(
        self, nodes: Tensor, relation: Tensor | None, others: Tensor, candidates: Tensor | None, sets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Edges and columns of candidates that are not to be counted, columns ascending.

        candidates: [S, K], of which each edge has those of its set; None: all nodes.
        """
        places, ids = torch.arange(len(nodes), device=nodes.device), others
        if self.known is not None:
            known = self.known.of(nodes, relation, self.side)
            places, ids = torch.cat([places, known[0]]), torch.cat([ids, known[1]])
        if candidates is not None:
            size = len(self.others)
            keys = (torch.arange(len(candidates), device=nodes.device).unsqueeze(1) * size + candidates).view(-1)
            sorted_keys, order = keys.sort(stable=True)
            wanted = sets[places] * size + ids
            first, last = (torch.searchsorted(sorted_keys, wanted, right=is_end) for is_end in (False, True))
            counts = last - first
            behind = torch.arange(int(counts.sum()), device=nodes.device) - (counts.cumsum(0) - counts).repeat_interleave(
                counts
            )
            places, ids = places.repeat_interleave(counts), order[first.repeat_interleave(counts) + behind]
            ids = ids % candidates.shape[1]
        ids, order = ids.sort()
        return places[order], ids


class _Pieces(NamedTuple):
    """Edges in pieces of up to _OF_GROUP, each of one group."""

    edges: Tensor  # int64 [pieces, _OF_GROUP], -1: none
    groups: Tensor  # int64 [pieces]

    @classmethod
    def of(cls, groups: Tensor, num_groups: int) -> _Pieces:
        counts = torch.bincount(groups, minlength=num_groups)
        if len(counts) > num_groups:
            raise InputError(f"groups has {len(counts) - 1}, but there are candidates of {num_groups}", "Number groups from 0.")
        of_groups = (counts + _OF_GROUP - 1) // _OF_GROUP
        of_pieces = torch.arange(num_groups, device=groups.device).repeat_interleave(of_groups)
        sorted_groups, order = groups.sort(stable=True)
        within = torch.arange(len(order), device=groups.device) - (counts.cumsum(0) - counts)[sorted_groups]
        first = (of_groups.cumsum(0) - of_groups)[sorted_groups]
        edges = order.new_full((len(of_pieces) * _OF_GROUP,), -1)
        edges[first * _OF_GROUP + within] = order
        return cls(edges.view(-1, _OF_GROUP), of_pieces)


def _pieces(count: int, at_a_time: int) -> Iterator[slice]:
    return (slice(first, min(first + at_a_time, count)) for first in range(0, count, at_a_time))


def _joined(found: list[Tensor], like: Tensor) -> Tensor:
    return torch.cat(found) if found else like.new_empty(0, dtype=torch.float64)


def _width(num_candidates: int) -> int:
    """Columns for so many candidates."""
    return -(-num_candidates // 128) * 128


def _products(queries: Tensor, table: Tensor, ids: Tensor, left_out: Tensor | None = None) -> Tensor:
    """[E, K] of queries [E, columns] with the rows ids [E, K] of a table; nan where an id is its edge's in left_out [E]."""
    scores = torch.empty(ids.shape, device=ids.device)
    given = (ops._array(queries.float()), ops._array(table), ops._array(ids), None if left_out is None else ops._array(left_out))
    ops._kernels.score_candidates(*given, scores, ops._stream(scores))
    return scores


def _are_finite(rows: Tensor) -> bool:
    begins = range(0, max(1, len(rows)), _CHECKED)
    return bool(torch.stack([rows[begin : begin + _CHECKED].isfinite().all() for begin in begins]).all())


def _padded(rows: Tensor, count: int) -> Tensor:
    return pad(rows, (0, 0, 0, count - len(rows)))
