# SPDX-License-Identifier: Apache-2.0
"""Ranks of edges among candidates for one of their ends, in tiles, of which nothing but ranks is kept."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from strata.errors import InputError

# Products of matrices of one shape add up in one order, so that an edge's rank does not depend on the edges beside it.
_QUERIES = 512
_CANDIDATES = {"cpu": 4096, "cuda": 8192}
_CHECKED = 1 << 16  # rows at a time
_OWN_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 28}  # of the rows of edges' own candidates at a time


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
        candidates: None: all nodes; int64 [K]: these, for all edges; int64 [E, K]: K of each edge.
        known: edges that are left out of the candidates (the "filtered" setting).
    """
    if side not in ("head", "tail"):
        raise InputError(f"side is {side!r}", 'Choose "tail" or "head", the end that is looked for.')
    of_heads, of_tails = rows if isinstance(rows, tuple) else (rows, rows)
    device = of_heads.device
    for name, given in (("head", head), ("relation", relation), ("tail", tail), ("candidates", candidates)):
        if given is not None and given.device != device:
            raise InputError(f"{name} lies on {given.device}, the rows on {device}", "Move it to the rows.")
    if not (_are_finite(of_heads) and _are_finite(of_tails)):
        raise InputError("rows of nodes are not finite", "Find out where the model diverged; such rows have no ranks.")
    edges = _Edges(decoder, *((of_heads, of_tails) if side == "tail" else (of_tails, of_heads)), side, known)
    nodes, others = (head, tail) if side == "tail" else (tail, head)
    of_device = "cuda" if device.type == "cuda" else "cpu"
    own = candidates if candidates is not None and candidates.dim() == 2 else None
    at_a_time = _QUERIES
    if own is not None:
        at_a_time = max(1, _OWN_ELEMENTS[of_device] // (edges.others.shape[1] * (own.shape[1] + 1)))
    found = [torch.empty(0, dtype=torch.float64, device=device)]
    for first in range(0, len(nodes), at_a_time):
        piece = slice(first, first + at_a_time)
        of_piece = nodes[piece], None if relation is None else relation[piece], others[piece]
        if own is not None:
            found.append(edges.among_own(*of_piece, own[piece]))
        else:
            found.append(edges.among_all(*of_piece, candidates, _CANDIDATES[of_device]))
    ranks = torch.cat(found)
    if bool(ranks.isnan().any()):
        raise InputError(
            "a score is nan", "Find out where the decoder's weights stopped being numbers; a score of nan has no rank."
        )
    return ranks


def _rank(better: Tensor, equal: Tensor, mine: Tensor) -> Tensor:
    """float64 [E] of counts of candidates; nan where the edge's own score is."""
    return (1 + better.double() + equal.double() / 2).masked_fill(mine.squeeze(1).isnan(), torch.nan)


class _Edges(NamedTuple):
    decoder: _Scorer
    rows: Tensor  # of the ends that are known
    others: Tensor  # of those that are looked for
    side: str
    known: KnownEdges | None

    def among_own(self, nodes: Tensor, relation: Tensor | None, others: Tensor, candidates: Tensor) -> Tensor:
        """The ranks of some edges among candidates [E, K] of their own."""
        # The true end is the first candidate, so that it is scored as the others are.
        ids = torch.cat([others.unsqueeze(1), candidates], dim=1)
        scores = self.decoder.against(self.rows[nodes].float(), relation, self.others[ids].float(), self.side)
        left_out = ids == others.unsqueeze(1)
        if self.known is not None:
            left_out |= self._is_known(nodes, relation, ids)
        mine = scores[:, :1].clone()
        scores = scores.masked_fill(left_out, torch.nan)
        return _rank((scores > mine).sum(1), (scores == mine).sum(1), mine)

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

    def among_all(
        self, nodes: Tensor, relation: Tensor | None, others: Tensor, candidates: Tensor | None, at_a_time: int
    ) -> Tensor:
        """The ranks of up to _QUERIES edges among all nodes, or candidates [K] of all edges."""
        count, num_candidates = len(nodes), len(self.others) if candidates is None else len(candidates)
        at_a_time = max(_QUERIES, min(at_a_time, -(-num_candidates // _QUERIES) * _QUERIES))
        queries = _padded(self.rows[nodes].float(), _QUERIES)
        relation_of = None if relation is None else pad(relation, (0, _QUERIES - count))

        def scores_of(tile: Tensor) -> Tensor:
            return self.decoder.against(queries, relation_of, _padded(tile.float(), at_a_time), self.side)

        mine = scores_of(self.others[others])[:count, :count].diagonal().unsqueeze(1)
        masked = self._masked(nodes, relation, others, candidates)
        bounds = torch.searchsorted(
            masked[1], torch.arange(0, num_candidates + at_a_time, at_a_time, device=nodes.device)
        ).tolist()
        better = torch.zeros(count, dtype=torch.int64, device=nodes.device)
        equal = torch.zeros_like(better)
        for number, first in enumerate(range(0, num_candidates, at_a_time)):
            ids = slice(first, min(first + at_a_time, num_candidates))
            scores = scores_of(self.others[ids] if candidates is None else self.others[candidates[ids]])[
                :count, : ids.stop - first
            ]
            places, columns = (part[bounds[number] : bounds[number + 1]] for part in masked)
            scores[places, columns - first] = torch.nan
            better += (scores > mine).sum(1)
            equal += (scores == mine).sum(1)
        return _rank(better, equal, mine)

    def _masked(
        self, nodes: Tensor, relation: Tensor | None, others: Tensor, candidates: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Edges and columns of candidates that are not to be counted, columns ascending."""
        places, ids = torch.arange(len(nodes), device=nodes.device), others
        if self.known is not None:
            known = self.known.of(nodes, relation, self.side)
            places, ids = torch.cat([places, known[0]]), torch.cat([ids, known[1]])
        if candidates is not None:
            sorted_ids, order = candidates.sort(stable=True)
            first, last = (torch.searchsorted(sorted_ids, ids, right=is_end) for is_end in (False, True))
            counts = last - first
            behind = torch.arange(int(counts.sum()), device=nodes.device) - (counts.cumsum(0) - counts).repeat_interleave(
                counts
            )
            places, ids = places.repeat_interleave(counts), order[first.repeat_interleave(counts) + behind]
        ids, order = ids.sort()
        return places[order], ids


def _are_finite(rows: Tensor) -> bool:
    begins = range(0, max(1, len(rows)), _CHECKED)
    return bool(torch.stack([rows[begin : begin + _CHECKED].isfinite().all() for begin in begins]).all())


def _padded(rows: Tensor, count: int) -> Tensor:
    return pad(rows, (0, 0, 0, count - len(rows)))
