# SPDX-License-Identifier: Apache-2.0
"""A rank of test_links.py: scores of its part of random edges; the last rank of three has none. Rank 0 prints the scores of all."""

import torch

import strata
from strata import metrics, nn

PART = 200  # edges of a rank of several


def scores_of_all(rank, size):
    device = strata.process().device
    random = torch.Generator().manual_seed(2)
    rows = torch.randn(500, 12, generator=random).to(device)
    head, relation, tail = (torch.randint(below, (301,), generator=random).to(device) for below in (500, 3, 500))
    scores, labels = torch.randint(40, (301,), generator=random).float().to(device), tail % 2
    decoder = nn.DistMult(3, 12).to(device)
    with torch.no_grad():
        decoder.rel_emb.weight.copy_(torch.randn(3, 12, generator=random))

    part = slice(PART * rank, PART * (rank + 1)) if size > 1 else slice(None)
    known = metrics.KnownEdges(head, relation, tail)
    ranks = metrics.link_ranks(decoder, rows, head[part], relation[part], tail[part], known=known)
    found = metrics.ranking(ranks, over_ranks=True)
    by_relation = metrics.ranking(ranks, groups=relation[part], num_groups=3, over_ranks=True)
    found |= {f"{name} by relation": value.tolist() for name, value in by_relation.items()}
    found["auc"] = metrics.roc_auc(scores[part], labels[part], over_ranks=True)
    found["precision"] = metrics.average_precision(scores[part], labels[part], over_ranks=True)
    found["hits"] = metrics.hits_at(scores[part], scores[part] - 4, 20, over_ranks=True)
    errors = metrics.regression(scores[part], tail[part].float(), over_ranks=True)
    return found | {name: round(value, 9) for name, value in errors.items()}


def main():
    strata.init_process_group()
    found = scores_of_all(strata.process().rank, strata.process().size)
    if strata.process().rank == 0:
        print(found)


if __name__ == "__main__":
    main()
