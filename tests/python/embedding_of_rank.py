# SPDX-License-Identifier: Apache-2.0
"""A rank of test_embedding.py: learns rows by steps whose batches are the same on any number of ranks.

embedding_of_rank.py FILE killed      saves after BREAK steps; then rank 1 dies while the others update
embedding_of_rank.py FILE compared    goes on from FILE, and says whether that is what a run without a break gives
embedding_of_rank.py FILE resumed     goes on from FILE, and saves the end as FILE.end.safetensors
"""

import os
import signal
import sys

import torch

import strata

ROWS, COLUMNS, STEPS, BREAK = 300, 5, 10, 6


def table():
    return strata.Embedding(ROWS, COLUMNS, lr=0.05, init=lambda rows: rows.copy_(first_rows()))


def first_rows():
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1))


def train(rows, begin, end, rank=0, ranks=1):
    """Ids that repeat within a rank and among ranks; in step 4 the last rank has none."""
    for step in range(begin, end):
        random = torch.Generator().manual_seed(step)
        ids = torch.randint(ROWS // 3, (120,), generator=random) * 3 % ROWS
        weights = torch.randn(120, COLUMNS, generator=random)
        of_rank = torch.arange(120) % (ranks if step != 4 else max(1, ranks - 1)) == rank
        ids, weights = (values[of_rank].to(strata.process().device) for values in (ids, weights))
        (rows(ids) * weights).sum().backward()
        rows.step()


def main():
    file, what = sys.argv[1:]
    place = strata.init(os.environ.get("STRATA_TEST_DEVICE", "auto"), ranks_per_machine=0 if what == "resumed" else 1)
    rows, unused = table(), strata.Embedding(0, 3)
    unused.step()
    if what == "killed":
        train(rows, 0, BREAK, place.rank, place.size)
        rows.save(file)
        ids = torch.arange(ROWS, device=place.device)
        rows(ids).sum().backward()
        if place.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        rows.step()
    whole = table()
    rows.load(file)
    train(rows, BREAK, STEPS, place.rank, place.size)
    if what == "resumed":
        rows.save(file + ".end.safetensors")
        return
    train(whole, 0, STEPS, place.rank, place.size)
    again = table()
    again.load_state_dict(rows.state_dict())
    same = all(
        torch.equal(one, other) and torch.equal(one, third)
        for one, other, third in zip(*(table.state_dict().values() for table in (rows, whole, again)))
    )
    again.write(torch.tensor([7, 7, 8 + place.rank]), torch.arange(3.0).view(3, 1).expand(3, COLUMNS) + place.rank)
    last = place.size - 1
    same &= again.weight[7:10, 0].tolist()[:2] == [1.0 + last, 2.0]
    print("same" if same else "different", flush=True)


if __name__ == "__main__":
    main()
