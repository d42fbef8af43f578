# SPDX-License-Identifier: Apache-2.0
"""Common code of the peers: their model, the loop over an epoch, and the clock of its stages."""
import time
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F


class Missing(Exception):
    """A peer's package is not installed."""


@dataclass
class Job:
    fanouts: list          # first hop first
    hidden: int
    batch: int             # seeds per rank and step
    epochs: int
    dropout: float
    learning_rate: float
    host_features: bool
    workers: int
    stages: bool           # wait for the GPU after each stage, to time it
    rank: int
    ranks: int
    device: torch.device

    def seeds(self, train, epoch):
        """This rank's batches of an epoch: as many on every rank."""
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(epoch))
        steps = -(-len(train) // (self.batch * self.ranks))
        for step in range(steps):
            everyone = order[step * self.batch * self.ranks:(step + 1) * self.batch * self.ranks]
            mine = everyone.tensor_split(self.ranks)[self.rank]
            yield train[mine]


@dataclass
class Clock:
    """Seconds a stage. On a GPU a stage ends when its work does, but to wait for that costs time: only if asked for."""
    device: torch.device
    stages: bool
    seconds: dict = field(default_factory=dict)

    def wait(self):
        if self.device.type == 'cuda':
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def now(self):
        return self.wait() if self.stages else time.perf_counter()

    def add(self, stage, start):
        end = self.now()
        if self.stages:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + end - start
        return end


class Sage(torch.nn.Module):
    """Layers of convolution(source rows, rows of the nodes themselves, edges), as each framework writes them."""

    def __init__(self, convolutions, dropout):
        super().__init__()
        self.convolutions = torch.nn.ModuleList(convolutions)
        self.dropout = dropout

    def forward(self, x, layers):
        for number, (convolution, layer) in enumerate(zip(self.convolutions, layers)):
            x = layer(convolution, x)
            if number + 1 < len(self.convolutions):
                x = F.dropout(F.relu(x), self.dropout, self.training)
        return x


def widths(job, cols, classes):
    sizes = [cols] + [job.hidden] * (len(job.fanouts) - 1) + [classes]
    return list(zip(sizes, sizes[1:]))


def distributed(model, job):
    model = model.to(job.device)
    if job.ranks == 1:
        return model
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[job.device.index] if job.device.type == 'cuda' else None)


def train(job, model, batches):
    """batches(epoch, clock) yields (x, layers, labels). Returns one record per epoch, as metrics.jsonl has them."""
    model = distributed(model, job)
    optimizer = torch.optim.Adam(model.parameters(), lr=job.learning_rate, fused=job.device.type == 'cuda')
    records = []
    for epoch in range(job.epochs):
        clock, seeds, steps = Clock(job.device, job.stages), 0, 0
        if job.ranks > 1:
            torch.distributed.barrier()
        begin = clock.wait()
        for x, layers, labels in batches(epoch, clock):
            start = clock.now()
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(x, layers), labels).backward()
            optimizer.step()
            clock.add('train', start)
            seeds, steps = seeds + len(labels), steps + 1
        if job.ranks > 1:
            torch.distributed.barrier()
        seconds = clock.wait() - begin
        total = torch.tensor([seeds], device=job.device)
        if job.ranks > 1:
            torch.distributed.all_reduce(total)
        records.append({'seconds': seconds, 'steps': steps, 'seeds': int(total), 'seeds_per_second': int(total) / seconds,
                        **{f'{stage}_seconds': seconds for stage, seconds in clock.seconds.items()}})
    return records
