# SPDX-License-Identifier: Apache-2.0
"""The training of fit(): its steps, evaluations and records."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import gc
import json
import math
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from strata import _arguments, _core
from strata._evaluation import Evaluator
from strata._labels import Labels, Loss
from strata._process import process, together
from strata._ranks_of_torch import Ranks
from strata._run_folder import RunFolder
from strata._user_models import edge_values_of, form_of_model, graph_for, known_layers, mixes_rows, takes_hops, unwrapped
from strata.errors import InputError
from strata.loaders import NeighborLoader, NodeLoader
from strata.recording import GraphedStep, graphed
from strata.training import Scores, TrainResult

if TYPE_CHECKING:
    from strata.choosers import NeighborChooser
    from strata.graph import Graph

Loader = Union[NeighborLoader, NodeLoader]
OnEpoch = Callable[[dict[str, Any]], Union[str, None]]

_USUAL_FANOUTS = (15, 10, 5)


@dataclasses.dataclass(frozen=True)
class Options:
    """Arguments of fit()."""

    fanouts: Sequence[int] | None
    epochs: int
    batch_size: int
    batches: str | None
    lr: float
    sampler: str | NeighborChooser
    seed: int
    eval_every: int
    eval_fanouts: Sequence[int] | None
    metric: str
    patience: int
    recorded: bool | None
    output: str | None
    overwrite: bool
    resume: str | None
    progress: str

    def named(self) -> dict[str, Any]:
        """By the names that options have in records."""
        kept = {name: value for name, value in vars(self).items() if value is not None and name not in ("overwrite", "resume")}
        return {name.replace("_", "-"): value if _is_plain(value) else str(value) for name, value in kept.items()}


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, list))


def run(model: Any, data: Any, options: Options, loss: Any, optimizer: Any, on_epoch: OnEpoch | None) -> TrainResult:
    """The work of fit(), whose arguments were checked one by one."""
    network = unwrapped(model)
    form = form_of_model(network, options.batches)
    with graph_for(data) as graph, Ranks() as ranks:
        options = dataclasses.replace(options, fanouts=options.fanouts or _usual_fanouts(network))
        device = torch.device(process().device)
        devices = [device] if device.type == "cuda" else []
        network.to(device)
        labels = Labels(graph)
        trainer = _Trainer(network, graph, form, options, labels, Loss(loss, labels), optimizer, on_epoch, ranks)
        try:
            with torch.random.fork_rng(devices):
                return trainer.run()
        finally:
            trainer.close()


def _usual_fanouts(model: torch.nn.Module) -> list[int]:
    layers = known_layers(model)
    if layers == 0:
        raise InputError("the number of the model's layers is not known", "Give one fanout per layer: fanouts=[15, 10, 5].")
    return [_USUAL_FANOUTS[min(i, len(_USUAL_FANOUTS) - 1)] for i in range(layers)]


class _Trainer:
    def __init__(
        self,
        model: torch.nn.Module,
        graph: Graph,
        form: str,
        options: Options,
        labels: Labels,
        loss: Loss,
        optimizer: Any,
        on_epoch: OnEpoch | None,
        ranks: Ranks,
    ) -> None:
        self._model, self._graph, self._form, self._options, self._labels = model, graph, form, options, labels
        self._loss, self._on_epoch, self._ranks = loss, on_epoch, ranks
        self._fanouts = list(options.fanouts or ())
        self._values = edge_values_of(model, graph) if form == "merged" else {}
        self._trims = form == "merged" and takes_hops(model, len(self._fanouts))
        self._folder: RunFolder | None = None
        if len(graph.nodes("train")) == 0:
            raise InputError("the graph has no training nodes", "Give it some: a train_mask in the data, or from_tensors(..., train=ids).")
        self._loader = self._loader_of("train", self._fanouts, shuffle=True)
        self._try_out()
        self._optimizer = self._optimizer_of(optimizer)
        self._network = self._on_all_ranks()
        self._graphed: GraphedStep | None = self._graphed_step()
        self._is_recorded = False
        self._evaluator = Evaluator(
            model, graph, form, labels, loss, ranks, options.batch_size, options.eval_fanouts, self._fanouts, self._loader_of, self._out
        )
        self._best: dict[str, Any] = {"epoch": 0, "score": None, "weights": None, "valid": None, "test": None}
        self._epoch = self._stale = 0
        self._seconds = self._seeds = 0.0
        self._has_stopped = False

    # ---- Parts ----

    def _loader_of(self, split: str, fanouts: Sequence[int], shuffle: bool = False) -> Loader:
        common: dict[str, Any] = {"batch_size": self._options.batch_size, "shuffle": shuffle, "sampler": self._options.sampler, "seed": self._options.seed}
        if self._form == "blocks":
            return NodeLoader(self._graph, split, fanouts=fanouts, features=True, **common)
        return NeighborLoader(self._graph, fanouts, split, **common)

    def _out(self, network: Any, item: Any) -> tuple[Tensor, Any, Any]:
        """The model's rows of the seeds of a batch, their labels, and the batch with its scales."""
        if self._form == "blocks":
            batch, x, y = item
            return network(x, batch.blocks), y, batch
        values: dict[str, Any] = {name: item[name] for name in self._values}
        if self._trims:
            values |= {"num_sampled_nodes_per_hop": item.num_sampled_nodes, "num_sampled_edges_per_hop": item.num_sampled_edges}
        return network(item.x, item.edge_index, **values)[: item.batch_size], item.y, item

    def _try_out(self) -> None:
        """The model on one batch, which also gives lazy parameters their sizes. Refuses what is not one row of scores per seed."""
        if self._graph.num_features == 0:
            raise InputError("the graph has no features", "Give it some: from_tensors(edge_index, x).")
        self._model.eval()
        with torch.no_grad():
            for item in self._loader:
                out, y, _ = self._out(self._model, item)
                self._labels.check(out, len(y), self._form)
                self._loss.try_out(out, y)
                break
        self._loader.set_epoch(0)

    def _optimizer_of(self, given: Any) -> torch.optim.Optimizer:
        on_gpu = process().device.startswith("cuda")
        if given is None:
            return torch.optim.Adam(self._model.parameters(), lr=self._options.lr, capturable=on_gpu, fused=on_gpu or None)
        made = given if isinstance(given, torch.optim.Optimizer) else given(self._model.parameters()) if callable(given) else None
        if not isinstance(made, torch.optim.Optimizer):
            raise TypeError(f"optimizer is {given!r}; give a torch.optim.Optimizer, or a function of parameters that makes one")
        own = {id(parameter) for parameter in self._model.parameters()}
        if not any(id(parameter) in own for group in made.param_groups for parameter in group["params"]):
            raise InputError("the optimizer has none of the model's parameters", "Make it of this model's: optimizer=torch.optim.SGD.")
        return made

    def _on_all_ranks(self) -> Any:
        if process().size == 1:
            return self._model
        if process().device.startswith("cuda"):
            with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
                return DistributedDataParallel(self._model)
        return DistributedDataParallel(self._model)

    def _graphed_step(self) -> GraphedStep | None:
        if self._options.recorded is False or not process().device.startswith("cuda"):
            if self._options.recorded:
                raise InputError("steps are recorded on GPUs only", "Leave out recorded=True.")
            return None
        if why := mixes_rows(self._model) or self._loss.why_unrecorded:
            self._goes_unrecorded(why)
            return None
        return graphed(self._step, self._loader)

    def _goes_unrecorded(self, why: object) -> None:
        words = str(why).splitlines()[0]
        if self._options.recorded:
            raise InputError(f"steps cannot be recorded: {words}", "Leave out recorded=True.")
        if process().rank == 0:
            warnings.warn(f"steps are not recorded: {words}", stacklevel=_arguments.caller())
        self._graphed, self._is_recorded = None, False

    # ---- Training ----

    def _step(self, item: Any) -> Tensor:
        """[sum of losses, seeds predicted correctly, seeds with a label] of this rank, of one step."""
        self._optimizer.zero_grad()
        out, y, batch = self._out(self._network, item)
        total, counted = self._loss.of(out, y, getattr(batch, "seed_mask", None))
        (total * batch.sum_scale).backward()
        self._optimizer.step()
        return torch.stack([total.detach(), self._labels.num_correct(out.detach(), y, counted), counted.sum()])

    def _steps(self) -> Iterator[Tensor]:
        """The results of an epoch's steps."""
        if self._graphed is not None and self._is_recorded:
            yield from self._graphed.over(self._loader)
            return
        for item in self._loader:
            if self._graphed is not None:
                try:
                    yield self._graphed(item)
                    continue
                except InputError as error:
                    self._goes_unrecorded(error)
            yield self._step(item)
        self._is_recorded = self._graphed is not None

    def run(self) -> TrainResult:
        self._folder = RunFolder(type(self._model).__name__, self._options.output, self._options.overwrite, self._options.resume)
        self._resume()
        self._folder.write(self._start())
        with self._bar() as bar, self._says_how_to_go_on():
            while self._epoch < self._options.epochs and not self._has_stopped:
                self._train_epoch(bar)
        if self._best["valid"] is None:
            self._evaluate()
        self._loader.close()
        return self._result()

    def _resume(self) -> None:
        assert self._folder is not None
        if self._options.resume is None:
            return
        state = self._ranks.first_of(together(self._folder.checkpoint))
        assert state is not None
        for name in ("fanouts", "global-batch-size", "seed"):
            if state["options"][name] != self._fixed()[name]:
                raise InputError(
                    f"{name} is {self._fixed()[name]}, and was {state['options'][name]} in {self._options.resume}", "Give the same to go on."
                )
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._epoch, self._best, self._stale = state["epoch"], state["best"], state["stale"]

    def _fixed(self) -> dict[str, Any]:
        return {"fanouts": self._fanouts, "global-batch-size": self._options.batch_size * process().size, "seed": self._options.seed}

    def _train_epoch(self, bar: Any) -> None:
        """An epoch with what follows it: its record, an evaluation if it is time for one, a checkpoint, and on_epoch()."""
        assert self._folder is not None
        begun = time.perf_counter()
        total, correct, counted = self._ranks.sum(self._sums_of_epoch(bar)).tolist()
        seconds, seeds = time.perf_counter() - begun, len(self._loader.dataset)
        self._epoch += 1
        self._seconds, self._seeds = self._seconds + seconds, self._seeds + seeds
        record = {
            "type": "epoch",
            "epoch": self._epoch,
            "steps": len(self._loader),
            "seeds": seeds,
            "loss": total / max(1.0, counted),
            "train_accuracy": correct / max(1.0, counted) if self._labels.has_classes else math.nan,
            "seconds": seconds,
            "seeds_per_second": seeds / seconds,
            "peak_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        self._folder.write(record)
        if not math.isfinite(record["loss"]):
            raise InputError(f"the loss of epoch {self._epoch} is {record['loss']}", "Lower the learning rate; is a feature or weight not finite?")
        every = self._options.eval_every
        if self._epoch == self._options.epochs or (every and self._epoch % every == 0):
            record |= self._evaluate()
        self._save()
        bar.set_postfix(epoch=self._epoch, loss=f"{record['loss']:.4f}", **self._shown(record))
        self._has_stopped = self._asks_to_stop(record) or 0 < self._options.patience <= self._stale
        if self._has_stopped and "valid" not in record:
            self._evaluate()
            self._save()

    def _sums_of_epoch(self, bar: Any) -> Tensor:
        """The sums of what the steps of this rank give."""
        self._network.train()
        self._loader.set_epoch(self._epoch)
        torch.manual_seed((self._options.seed * 1_000_003 + self._epoch * process().size + process().rank) % (1 << 63))
        sums = torch.zeros(3, dtype=torch.float64, device=process().device)
        left, per_step = len(self._loader.dataset), self._options.batch_size * process().size
        for found in self._steps():
            sums += found
            bar.update(min(per_step, left))
            left -= per_step
        return sums

    def _shown(self, record: dict[str, Any]) -> dict[str, str]:
        valid = record.get("valid") or {}
        return {f"valid {self._options.metric}": f"{valid[self._options.metric]:.4f}"} if valid.get("nodes") else {}

    def _asks_to_stop(self, record: dict[str, Any]) -> bool:
        answer = None if self._on_epoch is None else self._on_epoch(copy.deepcopy(record))
        if answer not in (None, "stop"):
            raise TypeError(f"on_epoch returned {answer!r}; return None to go on, or \"stop\"")
        return process().least(0 if answer == "stop" else 1) == 0

    def _save(self) -> None:
        assert self._folder is not None
        self._folder.save_checkpoint(
            {
                "epoch": self._epoch,
                "model": self._model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "best": self._best,
                "stale": self._stale,
                "options": self._fixed(),
            }
        )

    # ---- Evaluation ----

    def _evaluate(self) -> dict[str, Any]:
        """Scores of the validation and the test nodes, of which the best are kept with their weights."""
        assert self._folder is not None
        begun = time.perf_counter()
        found, classes = self._evaluator.scores()
        self._folder.write({"type": "evaluation", "epoch": self._epoch, "seconds": time.perf_counter() - begun} | found)
        score = found["valid"][self._options.metric] * (-1 if self._options.metric == "loss" else 1)
        if found["valid"]["nodes"] and self._best["score"] is not None and not score > self._best["score"]:
            self._stale += 1
            return found
        weights = {name: value.detach().cpu().clone() for name, value in self._model.state_dict().items()}
        self._stale = 0
        self._best = {"epoch": self._epoch, "score": score if found["valid"]["nodes"] else None, "weights": weights} | found
        self._folder.save_model(weights)
        if classes is not None:
            self._folder.write({"type": "classes", "epoch": self._epoch} | classes)
        return found

    # ---- Records ----

    def _start(self) -> dict[str, Any]:
        graph, here = self._graph, process()
        return {
            "type": "run",
            "version": 1,
            "graph": graph.name,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "model": type(self._model).__name__,
            "fanouts": self._fanouts,
            "global_batch_size": self._options.batch_size * here.size,
            "steps_per_epoch": len(self._loader),
            "feature_cols": graph.num_features,
            "classes": graph.num_classes,
            "parameters": sum(parameter.numel() for parameter in self._model.parameters()),
            "seed": self._options.seed,
            "ranks": here.size,
            "machines": here.num_machines,
            "device": here.device.partition(":")[0],
            "reducer": "torch" if here.size > 1 else "solo",
            "strata": _core.__version__,  # type: ignore[attr-defined]  # stubs leave it out
            "libraries": [f"torch {torch.__version__}"],
            "hosts": sorted(set(self._ranks.each(here.host))),
            "started": datetime.datetime.now().isoformat(timespec="seconds"),
            "command": "strata.fit",
            "options": self._options.named() | {"fanouts": self._fanouts, "optimizer": type(self._optimizer).__name__},
        }

    def _result(self) -> TrainResult:
        assert self._folder is not None
        best = self._best
        self._model.load_state_dict(best["weights"])
        self._folder.write(
            {"type": "final", "stopped": False, "epochs": self._epoch, "best_epoch": best["epoch"], "valid": best["valid"], "test": best["test"]}
            | {"seeds_per_second": self._seeds / self._seconds if self._seconds else 0.0}
        )
        records = process().broadcast(json.dumps(self._folder.records), 0)
        return TrainResult(
            valid=Scores(**best["valid"]),
            test=Scores(**best["test"]),
            best_epoch=best["epoch"],
            epochs=self._epoch,
            seeds_per_second=self._seeds / self._seconds if self._seconds else 0.0,
            stopped=False,
            folder=self._folder.path,
            records=json.loads(records),
            weights=best["weights"],
        )

    @contextlib.contextmanager
    def _bar(self) -> Iterator[Any]:
        from tqdm.auto import tqdm

        from strata._jobs import shows_bars

        wanted = self._options.progress == "bar" or (self._options.progress == "auto" and shows_bars())
        seeds = len(self._loader.dataset)
        with tqdm(
            total=seeds * self._options.epochs,
            initial=seeds * self._epoch,
            unit=" seeds",
            unit_scale=True,
            disable=not wanted or process().rank > 0,
        ) as bar:
            yield bar

    @contextlib.contextmanager
    def _says_how_to_go_on(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            assert self._folder is not None
            saved = self._folder.path / "checkpoint.pt"
            self._folder.write({"type": "final", "stopped": True, "epochs": self._epoch, "best_epoch": self._best["epoch"]})
            if not saved.exists():
                raise
            words = f"stopped after epoch {self._epoch}: strata.fit(model, data, ..., resume={str(self._folder.path)!r}) continues"
            raise KeyboardInterrupt(words) from None

    def close(self) -> None:
        """Frees what only training needs, DistributedDataParallel before its group; the model stays."""
        self._graphed = self._network = None
        gc.collect()
        if self._folder is not None:
            self._folder.close()
