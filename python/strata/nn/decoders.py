# SPDX-License-Identifier: Apache-2.0
"""Scores of edges and triples, made of the rows of their ends and of weights of their relation."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import dropout, normalize
from torch.utils.checkpoint import checkpoint

from strata.errors import InputError
from strata.nn._inputs import check_channels, refuse

# Elements of the largest tensor [E, candidates, columns] that exists at a time where a score is no product of matrices.
_TILE = {"cpu": 1 << 20, "cuda": 1 << 26}


class Decoder(torch.nn.Module):
    """What all decoders have: forward() scores triples, against() scores ends of triples against many candidates.

    A decoder has no rows of nodes: a GNN gives them, or strata.Embedding. Where torch_geometric.nn.kge has a model of the same name, its
    arguments (without num_nodes), the names of the relations' weights and the scores are the same.
    """

    def __init__(self, num_relations: int) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(num_relations, int) or num_relations < 1:
            raise refuse(name, "num_relations", num_relations, "Give the number of relations, 1 or more.")
        self.num_relations = num_relations

    def forward(self, head: Tensor, relation: Tensor | None, tail: Tensor) -> Tensor:
        """Scores [E] of head [E, columns], relation int64 [E] and tail [E, columns]. Higher is more likely.

        Leading dimensions are broadcast: tails [E, K, columns] of head[:, None] and relation[:, None] give [E, K]. `relation` may
        be None if there is only one.
        """
        raise NotImplementedError

    def against(
        self,
        rows: Tensor,
        relation: Tensor | None,
        candidates: Tensor,
        side: str = "tail",
        *,
        groups: Tensor | None = None,
    ) -> Tensor:
        """Scores [E, N] of the known ends [E, columns] of E triples with candidates [N, columns] for the other end.

        `side` is "tail" if the candidates are tails, or "head". Candidates [E, K, columns], K of each triple, give [E, K]. Of
        candidates [N, columns], no tensor [E, N, columns] is made, in the backward pass neither; nor of candidates [G, K, columns] of
        groups of triples, where `groups`, int64 [E], is the group of each: a batch's neg_group.
        """
        if side not in ("head", "tail"):
            raise InputError(f"side is {side!r}", 'Choose "tail" or "head", the end that the candidates stand for.')
        if groups is None:
            return self._against(rows, relation, candidates, side)
        if candidates.dim() != 3 or groups.shape != rows.shape[:1]:
            raise InputError(
                f"groups are {list(groups.shape)}, candidates {list(candidates.shape)}",
                "Give the group of each triple, and candidates [groups, K, columns].",
            )
        if len(candidates) == 1:
            return self._against(rows, relation, candidates[0], side)
        return self._against_groups(rows, relation, candidates, side, groups)

    def _against_groups(self, rows: Tensor, relation: Tensor | None, candidates: Tensor, side: str, groups: Tensor) -> Tensor:
        order = groups.argsort(stable=True)
        sizes = torch.bincount(groups, minlength=len(candidates)).tolist()
        relations = [None] * len(sizes) if relation is None else torch.split(relation[order], sizes)
        of_groups = zip(torch.split(rows[order], sizes), relations, candidates)
        scores = [self._against(known, of_group, others, side) for known, of_group, others in of_groups]
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device)
        return torch.cat(scores)[places] if scores else rows.new_zeros(0, candidates.shape[1])

    def _against(self, rows: Tensor, relation: Tensor | None, candidates: Tensor, side: str) -> Tensor:
        raise NotImplementedError

    def _of_relation(self, weight: Tensor, relation: Tensor | None) -> Tensor:
        if relation is not None:
            return torch.nn.functional.embedding(relation, weight)
        if self.num_relations > 1:
            raise InputError(
                f"{type(self).__name__} has {self.num_relations} relations, but `relation` is None",
                "Give the relation of each triple.",
            )
        return weight[0]

    def extra_repr(self) -> str:
        return f"num_relations={self.num_relations}"


class ProductDecoder(Decoder):
    """Decoders whose scores are products of the candidates' rows with a row that is made of the known end and the relation."""

    def queries(self, rows: Tensor, relation: Tensor | None, side: str) -> Tensor:
        """[E, columns], of which queries @ candidates.t() are the scores."""
        raise NotImplementedError

    def _against(self, rows: Tensor, relation: Tensor | None, candidates: Tensor, side: str) -> Tensor:
        return _products(self.queries(rows, relation, side), candidates)


class DotProduct(ProductDecoder):
    """The dot product of both ends' rows; `relation` is not read."""

    def __init__(self) -> None:
        super().__init__(1)

    def forward(self, head: Tensor, relation: Tensor | None, tail: Tensor) -> Tensor:
        """See Decoder.forward()."""
        return (head * tail).sum(dim=-1)

    def queries(self, rows: Tensor, relation: Tensor | None, side: str) -> Tensor:
        """See ProductDecoder.queries()."""
        return rows


class DistMult(ProductDecoder):
    """sum(head * rel_emb[relation] * tail), https://arxiv.org/abs/1412.6575."""

    def __init__(self, num_relations: int, hidden_channels: int) -> None:
        super().__init__(num_relations)
        check_channels("DistMult", "hidden_channels", hidden_channels)
        self.rel_emb = torch.nn.Embedding(num_relations, hidden_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the relations' weights anew."""
        torch.nn.init.xavier_uniform_(self.rel_emb.weight)

    def forward(self, head: Tensor, relation: Tensor | None, tail: Tensor) -> Tensor:
        """See Decoder.forward()."""
        return (head * self._of_relation(self.rel_emb.weight, relation) * tail).sum(dim=-1)

    def queries(self, rows: Tensor, relation: Tensor | None, side: str) -> Tensor:
        """See ProductDecoder.queries()."""
        return rows * self._of_relation(self.rel_emb.weight, relation)


class ComplEx(ProductDecoder):
    """The real part of sum(head * rel * conj(tail)) in complex numbers, https://arxiv.org/abs/1606.06357.

    Rows have 2 * hidden_channels columns: the real parts, then the imaginary parts; rel_emb and rel_emb_im are those of relations.
    """

    def __init__(self, num_relations: int, hidden_channels: int) -> None:
        super().__init__(num_relations)
        check_channels("ComplEx", "hidden_channels", hidden_channels)
        self.rel_emb = torch.nn.Embedding(num_relations, hidden_channels)
        self.rel_emb_im = torch.nn.Embedding(num_relations, hidden_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the relations' weights anew."""
        torch.nn.init.xavier_uniform_(self.rel_emb.weight)
        torch.nn.init.xavier_uniform_(self.rel_emb_im.weight)

    def _turned(self, rows: Tensor, relation: Tensor | None, side: str) -> Tensor:
        real = self._of_relation(self.rel_emb.weight, relation)
        return _product_of_complex(rows, real, self._of_relation(self.rel_emb_im.weight, relation), side)

    def forward(self, head: Tensor, relation: Tensor | None, tail: Tensor) -> Tensor:
        """See Decoder.forward()."""
        return (self._turned(head, relation, "tail") * tail).sum(dim=-1)

    def queries(self, rows: Tensor, relation: Tensor | None, side: str) -> Tensor:
        """See ProductDecoder.queries()."""
        return self._turned(rows, relation, side)


class RotatE(Decoder):
    """margin - |head turned by the relation's angles - tail|, in complex numbers, https://arxiv.org/abs/1902.10197.

    Rows have 2 * hidden_channels columns: the real parts, then the imaginary parts.

    Args:
        num_relations, hidden_channels, margin: as in torch_geometric.
        norm: "l2", the norm over all numbers, as in torch_geometric, whose scores against many candidates are one product of
            matrices; or "l1", the sum of the absolute values of the complex numbers, as in the paper's code, OpenKE and DGL-KE.
    """

    def __init__(self, num_relations: int, hidden_channels: int, margin: float = 1.0, norm: str = "l2") -> None:
        super().__init__(num_relations)
        check_channels("RotatE", "hidden_channels", hidden_channels)
        if norm not in ("l1", "l2"):
            raise refuse("RotatE", "norm", norm, 'Choose "l2" or "l1".')
        self.margin = margin
        self.norm = norm
        self.rel_emb = torch.nn.Embedding(num_relations, hidden_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the relations' angles anew."""
        torch.nn.init.uniform_(self.rel_emb.weight, 0, 2 * math.pi)

    def _turned(self, rows: Tensor, relation: Tensor | None, side: str) -> Tensor:
        angle = self._of_relation(self.rel_emb.weight, relation)
        return _product_of_complex(rows, angle.cos(), angle.sin(), side)

    def _length(self, difference: Tensor) -> Tensor:
        if self.norm == "l2":
            return _norm(difference, 2.0)
        real, imaginary = difference.chunk(2, dim=-1)
        # The gradient of a root is infinite at 0, that of a value below the minimum is 0.
        lengths: Tensor = (real.square() + imaginary.square()).clamp(min=1e-30).sqrt()
        return lengths.sum(dim=-1)

    def forward(self, head: Tensor, relation: Tensor | None, tail: Tensor) -> Tensor:
        """See Decoder.forward()."""
        return self.margin - self._length(self._turned(head, relation, "tail") - tail)

    def _against(self, rows: Tensor, relation: Tensor | None, candidates: Tensor, side: str) -> Tensor:
        # A turn keeps lengths: |turned(head) - tail| = |head - turned back(tail)|.
        return self.margin - _distances(self._turned(rows, relation, side), candidates, self.norm == "l2", self._length)


class TransE(Decoder):
    """-|head + rel_emb[relation] - tail| of rows that are scaled to length 1, by the norm `p_norm`, https://papers.nips.cc/paper/5071."""

    def __init__(self, num_relations: int, hidden_channels: int, p_norm: float = 1.0) -> None:
        super().__init__(num_relations)
        check_channels("TransE", "hidden_channels", hidden_channels)
        self.p_norm = p_norm
        self.rel_emb = torch.nn.Embedding(num_relations, hidden_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the relations' weights anew."""
        bound = 6.0 / math.sqrt(self.rel_emb.embedding_dim)
        torch.nn.init.uniform_(self.rel_emb.weight, -bound, bound)
        with torch.no_grad():
            self.rel_emb.weight.copy_(normalize(self.rel_emb.weight, p=self.p_norm, dim=-1))

    def _length(self, difference: Tensor) -> Tensor:
        return _norm(difference, self.p_norm)

    def forward(self, head: Tensor, relation: Tensor | None, tail: Tensor) -> Tensor:
        """See Decoder.forward()."""
        head, tail = (normalize(rows, p=self.p_norm, dim=-1) for rows in (head, tail))
        return -self._length(head + self._of_relation(self.rel_emb.weight, relation) - tail)

    def _against(self, rows: Tensor, relation: Tensor | None, candidates: Tensor, side: str) -> Tensor:
        rows, candidates = (normalize(given, p=self.p_norm, dim=-1) for given in (rows, candidates))
        moved = self._of_relation(self.rel_emb.weight, relation)
        return -_distances(rows + moved if side == "tail" else rows - moved, candidates, self.p_norm == 2, self._length)


class MLPDecoder(Decoder):
    """Linear layers with ReLU and dropout between them, of the product of both ends' rows or of both side by side.

    Args:
        in_channels: columns of the rows.
        hidden_channels, num_layers, dropout: as in OGB's LinkPredictor, whose weights have the same names, lins.0.weight ...
        out_channels: 1 for a score, [E]; more for classes or targets of edges, [E, out_channels], which only forward() gives.
        combine: "mul", head * tail, which does not know their order; or "cat".
        num_relations: more than 1 adds rel_emb: head * rel * tail, or all three side by side.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int = 2,
        dropout: float = 0.0,
        *,
        out_channels: int = 1,
        combine: str = "mul",
        num_relations: int = 1,
    ) -> None:
        super().__init__(num_relations)
        check_channels("MLPDecoder", "channels", (in_channels, hidden_channels, out_channels))
        check_channels("MLPDecoder", "num_layers", num_layers)
        if combine not in ("mul", "cat"):
            raise refuse("MLPDecoder", "combine", combine, 'Choose "mul" or "cat".')
        self.combine = combine
        self.dropout = dropout
        self.rel_emb = torch.nn.Embedding(num_relations, in_channels) if num_relations > 1 else None
        first = in_channels * (1 if combine == "mul" else 2 if self.rel_emb is None else 3)
        self.widest = max(first, hidden_channels)
        widths = [first, *[hidden_channels] * (num_layers - 1), out_channels]
        self.lins = torch.nn.ModuleList([torch.nn.Linear(*pair) for pair in zip(widths, widths[1:])])

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        for module in (*self.lins, self.rel_emb):
            if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
                module.reset_parameters()

    def forward(self, head: Tensor, relation: Tensor | None, tail: Tensor) -> Tensor:
        """See Decoder.forward()."""
        return self._scores(head, None if self.rel_emb is None else self._of_relation(self.rel_emb.weight, relation), tail)

    def _scores(self, head: Tensor, between: Tensor | None, tail: Tensor) -> Tensor:
        parts = [head, tail] if between is None else [head, between, tail]
        if self.combine == "mul":
            x = head * tail if between is None else head * between * tail
        else:
            x = torch.cat([part.expand(*(head[..., 0] + tail[..., 0]).shape, -1) for part in parts], dim=-1)
        for number, layer in enumerate(self.lins):
            x = layer(x) if number == 0 else layer(dropout(x.relu(), self.dropout, self.training))
        return x[..., 0] if x.shape[-1] == 1 else x

    def _against(self, rows: Tensor, relation: Tensor | None, candidates: Tensor, side: str) -> Tensor:
        last = self.lins[-1]
        assert isinstance(last, torch.nn.Linear)
        if last.out_features != 1:
            raise InputError(
                f"MLPDecoder has out_channels={last.out_features}", "Only forward() gives several numbers for an edge."
            )
        between = None if self.rel_emb is None else self._of_relation(self.rel_emb.weight, relation)
        if between is not None and between.dim() == rows.dim():
            between = between.unsqueeze(1)

        def scores(known: Tensor, others: Tensor) -> Tensor:
            return self._scores(known, between, others) if side == "tail" else self._scores(others, between, known)

        return _in_tiles(scores, rows, candidates, self.widest)


def makes_queries(decoder: object) -> bool:
    """Whether scores are products with decoder.queries(), also where a class was derived."""
    kind = type(decoder)
    if not issubclass(kind, ProductDecoder) or "against" in vars(decoder):
        return False
    return kind.against is Decoder.against and kind._against is ProductDecoder._against


def _product_of_complex(rows: Tensor, real: Tensor, imaginary: Tensor, side: str) -> Tensor:
    """rows * relation, or rows * conj(relation) to get from tails to heads. [..., 2 * channels]"""
    one, other = rows.chunk(2, dim=-1)
    if side == "head":
        imaginary = -imaginary
    return torch.cat([one * real - other * imaginary, one * imaginary + other * real], dim=-1)


def _norm(rows: Tensor, order: float) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(rows, ord=order, dim=-1)
    return norm


def _products(queries: Tensor, candidates: Tensor) -> Tensor:
    """[E, N] of queries [E, columns] and candidates [N, columns] or [E, N, columns]."""
    if candidates.dim() == 2:
        return queries @ candidates.t()
    return (candidates @ queries.unsqueeze(-1)).squeeze(-1)


def _distances(queries: Tensor, candidates: Tensor, is_euclidean: bool, length: Callable[[Tensor], Tensor]) -> Tensor:
    """[E, N], as _products() gives them."""
    if is_euclidean and candidates.dim() == 2:
        return torch.cdist(queries, candidates, compute_mode="use_mm_for_euclid_dist")
    return _in_tiles(lambda one, other: length(one - other), queries, candidates, queries.shape[-1])


def _in_tiles(scores: Callable[[Tensor, Tensor], Tensor], rows: Tensor, candidates: Tensor, columns: int) -> Tensor:
    """scores(rows[:, None], candidates) of some candidates at a time, whose tensors the backward pass makes again."""
    rows = rows.unsqueeze(1)
    if candidates.dim() == 3:
        return scores(rows, candidates)
    at_a_time = max(1, _TILE["cuda" if rows.is_cuda else "cpu"] // max(1, len(rows) * columns))
    if len(candidates) == 0:
        return rows.new_zeros(len(rows), 0)
    begins = range(0, len(candidates), at_a_time)
    tiles = [checkpoint(scores, rows, candidates[begin : begin + at_a_time], use_reentrant=False) for begin in begins]
    return torch.cat(tiles, dim=1)
