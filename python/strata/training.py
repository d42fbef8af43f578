# SPDX-License-Identifier: Apache-2.0
"""Training in one call: strata-train's options by the same names, and what a run came to as values."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import math
import os
import pathlib
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from strata import _process
from strata._arrays import host_array, list_of_ids
from strata._jobs import Bars, finish
from strata._memory import Parts, as_parts, scratch_folder
from strata._torch import require_torch
from strata._train_options import OPTIONS, TrainOptions
from strata.errors import InputError

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    from strata.reports.page import Page

OnEpoch = Callable[[dict[str, Any]], Literal["stop"] | None]


@dataclass(frozen=True)
class Scores:
    """Scores of one split, over all ranks; NaN where a score has no meaning."""

    nodes: int
    loss: float
    accuracy: float = math.nan
    macro_f1: float = math.nan
    roc_auc: float = math.nan
    rmse: float = math.nan  # of regression, as the next two
    mae: float = math.nan
    r2: float = math.nan
    ap: float = math.nan  # of edges with two classes
    mrr: float = math.nan  # of links, as the next one
    hits_10: float = math.nan


@dataclass(frozen=True)
class TrainResult:
    """The result of a training run; the same on every rank.

    Attributes:
        valid, test: scores of the best model.
        best_epoch: by validation; 1 is the first.
        epochs: that were trained.
        seeds_per_second: of all ranks over the whole training time.
        stopped: on_epoch or another rank asked for it; the run wrote a checkpoint, from which resume= continues.
        folder: of the run, as strata-train writes it: model.safetensors, metrics.jsonl, train.log, checkpoint.
        records: of metrics.jsonl: dicts with a "type" of "run", "epoch", "evaluation", "final" ...
        weights: of the best model, as model.safetensors has them: float32 on the CPU, for load_state_dict().
    """

    valid: Scores
    test: Scores
    best_epoch: int
    epochs: int
    seeds_per_second: float
    stopped: bool
    folder: pathlib.Path
    records: list[dict[str, Any]]
    weights: dict[str, torch.Tensor]

    def records_of(self, kind: str) -> list[dict[str, Any]]:
        """The records of one type: "epoch" has loss, train_accuracy and seconds of each epoch, "evaluation" its scores."""
        return [record for record in self.records if record["type"] == kind]

    def __repr__(self) -> str:
        def score(split: str) -> str:
            scores = getattr(self, split)
            shown = [value for value in (scores.rmse, scores.mrr) if not math.isnan(value)]
            return f"{split}={(*shown, scores.accuracy)[0]:.4f}"

        return (
            f"strata.TrainResult({score('valid')}, {score('test')}, best_epoch={self.best_epoch}, "
            f"epochs={self.epochs}, folder={str(self.folder)!r})"
        )


@dataclass(frozen=True)
class Evaluation:
    """The scores of a trained model on a graph; the same on every rank."""

    valid: Scores
    test: Scores


Run = TrainResult | str | os.PathLike[str]


def train(graph: Any = None, *, on_epoch: OnEpoch | None = None, **options: Unpack[TrainOptions]) -> TrainResult:
    """Trains a model as strata-train does. Collective: all ranks give the same options.

        result = strata.train(data, model="sage", fanouts=[15, 10, 5], epochs=10)
        print(result.test.accuracy, [record["loss"] for record in result.records_of("epoch")])
        logits = strata.predict(result, data)
        model.load_state_dict(result.weights)          # PyTorch Geometric's GraphSAGE of these sizes

    Args:
        graph: a torch_geometric.data.Data, a DGLGraph, a networkx graph, a Graph, or a dict of arrays by the names of
            from_tensors(); or the name of parts, "synthetic:..." or "planted:...", or any input of strata.partition(), "npy:DIR".
            A graph in memory, or such an input, is copied into shared memory, once per host: every rank gives the same one, or
            one rank gives it and the others None. On several machines it is partitioned there. To resume a run, give the same
            graph again.
        on_epoch: is called on the first rank, in the calling thread, after each epoch, while all ranks wait. It gets the record
            of the epoch, as metrics.jsonl has it, with the scores "valid" and "test" if there was an evaluation. If it returns
            "stop", the run stops on all ranks, with a checkpoint. So it does if the function raises; train() then raises the
            same on the first rank, and InputError on the others, whose own on_epoch is not called.
        options: those of strata-train, with _ for -, and values as a configuration file has them. None leaves an option out.
            Without `output` the run gets a folder of its own in runs. The device and the virtual machines are those of
            strata.init(), unless they are given. progress="auto" shows bars on a terminal and in notebooks. Without log_level
            the terminal shows what strata.set_log_level() says.

    Raises:
        InputError, OutOfMemory and their like. Ctrl-C stops the run after the step under way, with a checkpoint from which
        resume=FOLDER continues, as the KeyboardInterrupt says; a second Ctrl-C does not wait for that.
    """
    require_torch()
    _join(dict(options))
    epochs = _Epochs(on_epoch)
    result = _run("train", graph, dict(options), epochs)
    if epochs.are_watched:
        _process.together(epochs.raise_error)
    import torch.utils.dlpack

    return TrainResult(
        valid=Scores(**result["valid"]),
        test=Scores(**result["test"]),
        best_epoch=result["best_epoch"],
        epochs=result["epochs"],
        seeds_per_second=result["seeds_per_second"],
        stopped=result["stopped"],
        folder=pathlib.Path(result["folder"]),
        records=[json.loads(line) for line in result["records"].splitlines()],
        weights={name: torch.utils.dlpack.from_dlpack(held) for name, held in result["weights"].items()},
    )


def _document() -> None:
    """Gives train() the options of strata-train as parameters, with their help."""
    own = list(inspect.signature(train).parameters.values())[:-1]
    types = TrainOptions.__annotations__
    others = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[name])
        for name, (default, _) in OPTIONS.items()
    ]
    train.__signature__ = inspect.Signature([*own, *others], return_annotation="TrainResult")  # type: ignore[attr-defined]
    lines = [
        textwrap.fill(f"{name}: {text}", 120, initial_indent=" " * 8, subsequent_indent=" " * 12) for name, (_, text) in OPTIONS.items()
    ]
    train.__doc__ = f"{train.__doc__}\n    Options:\n" + "\n".join(lines) + "\n"


_document()


def evaluate(run: Run, graph: Any = None, **options: Any) -> Evaluation:
    """Scores the best model of a run on a graph, with all neighbors of every node: `strata-train evaluate`. Collective.

    Args:
        run: what train() returned, or the folder of a run.
        graph: as train() takes it; by default the one that the run was trained on, if that lies in files.
        options: those of train() that say where it is computed and what is shown: device, gpu_memory, progress ...
    """
    result = _run("evaluate", graph, {"run": _folder_of(run)} | options)
    return Evaluation(valid=Scores(**result["valid"]), test=Scores(**result["test"]))


def predict(run: Run, graph: Any = None, nodes: Any = None, **options: Any) -> torch.Tensor:
    """The logits of the best model of a run, with all neighbors of every node: `strata-train predict`. Collective.

    Args:
        run: what train() returned, or the folder of a run.
        graph: as train() takes it; by default the one that the run was trained on, if that lies in files.
        nodes: ids [n] of the input, or a mask of its N nodes; by default all. All ranks give the same.
        options: those of evaluate(), or split="test" instead of nodes; of a run that learns links, pairs=FILE for the scores of pairs,
            or top=10 for the ids of each node's best new neighbors.

    Returns:
        float32 [N, classes] or [n, classes] on the CPU, on every rank: in the order of `nodes`, else of the nodes as the input
        numbers them. The ranks of a host share the memory until they write to it. Several hosts need the run's folder on a file
        system that they share.
    """
    if "output" in options:
        raise InputError("strata.predict() returns the logits, and takes no output", "Write them yourself: torch.save(logits, FILE).")
    require_torch()
    _join(options)
    wanted = _process.together(lambda: None if nodes is None else _ids(nodes))
    _require_same_nodes(wanted)
    with _shared_folder(_folder_of(run)) as folder:
        given: dict[str, Any] = {"run": _folder_of(run), "output": folder / "logits.npy"} | options
        if wanted is not None:
            given["nodes"] = folder / "nodes.npy"
            _process.together(lambda: _save_on_first(given["nodes"], wanted))
        _run("predict", graph, given)
        return _process.together(lambda: _read(folder / "logits.npy"))


def _folder_of(run: Run) -> str:
    return os.fspath(run.folder if isinstance(run, TrainResult) else run)


def _ids(nodes: Any) -> Any:
    array = host_array(nodes, "nodes")
    return array if array.dtype == bool and array.ndim == 1 else list_of_ids(array, "nodes")


@contextlib.contextmanager
def _shared_folder(run: str) -> Iterator[pathlib.Path]:
    """A folder that all ranks see: on one host in its memory, on several in the run's folder. Collective."""
    current = _process.process()
    with contextlib.ExitStack() as stack:

        def make(of_run: bool) -> str:
            if current.rank > 0:
                return ""
            return str(stack.enter_context(scratch_folder(root=pathlib.Path(run) if of_run else None)))

        folder = pathlib.Path(current.broadcast(_process.together(lambda: make(False)), 0))
        if not current.least(int(folder.exists())):
            folder = pathlib.Path(current.broadcast(_process.together(lambda: make(True)), 0))
        yield folder
        current.barrier()  # the others have opened what they need


def _require_same_nodes(ids: Any) -> None:
    current = _process.process()
    mine = "" if ids is None else hashlib.blake2b(ids.tobytes()).hexdigest()
    firsts = current.broadcast(mine, 0)

    def check() -> None:
        if mine != firsts:
            raise InputError("this rank was given other nodes than rank 0", "Give all ranks the same.")

    _process.together(check)


def _save_on_first(path: pathlib.Path, ids: Any) -> None:
    import numpy

    if _process.process().rank == 0:
        numpy.save(path, ids)


def _read(path: pathlib.Path) -> torch.Tensor:
    import numpy
    import torch

    return torch.from_numpy(numpy.load(path, mmap_mode="c"))


def plan(graph: Any = None, **options: Any) -> dict[str, Any]:
    """Predicts what a run with these options needs and how fast it is: `strata-plan --json`. Collective.

    Args:
        graph: as train() takes it.
        options: those of train(), and cluster="machines=16,gpus=8,..." for machines that are not here.
    """
    record: dict[str, Any] = json.loads(_run("plan", graph, options)["records"])
    return record


def report(*runs: str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> Page:
    """A page about one run of strata-train, about several side by side, or about a partition; a notebook shows it.

    Args:
        runs: folders of runs, such as "runs/last"; they may still train. Or the facts about a partition, "parts.html.json".
        output: a file to write the page to, too.
    """
    from strata import reports

    return reports.report(*runs, output=output)


class _Epochs:
    """Calls the first rank's function for the records of epochs. Made by all ranks together."""

    def __init__(self, function: OnEpoch | None) -> None:
        current = _process.process()
        self.function = function if current.rank == 0 else None
        self.are_watched = current.least(int(self.function is None)) == 0  # on the first rank; the same on all
        self._error: Exception | None = None

    def answer(self, job: Any) -> None:
        """Passes on the record for which the job waits, if there is one."""
        record = job.epoch_record()
        if record is not None:
            job.answer(self._goes_on(json.loads(record)))

    def _goes_on(self, record: dict[str, Any]) -> bool:
        assert self.function is not None
        try:
            answer = self.function(record)
            if answer not in (None, "stop"):
                raise TypeError(f'on_epoch returned {answer!r}; return "stop", or nothing to go on')
        except Exception as error:
            self._error = error
            return False
        return answer is None

    def note(self, words: str) -> None:
        """Adds to the function's error how the run goes on."""
        if words and self._error is not None and hasattr(self._error, "add_note"):
            self._error.add_note(f"on_epoch raised this; {words}")

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error


def _join(options: dict[str, Any]) -> None:
    from strata import _train

    _train.prepare_process()
    _process.join(options.get("device") or "auto", options.get("ranks_per_machine") or 0)


def _run(purpose: str, graph: Any, options: dict[str, Any], epochs: _Epochs | None = None) -> dict[str, Any]:
    require_torch()
    _join(options)
    with as_parts(graph, options.get("ranks_per_machine") or 0, _shows_bars(options)) as parts:
        return _run_on(parts, purpose, options, epochs)


def _shows_bars(options: dict[str, Any]) -> bool | None:
    """As Bars takes it: None is where somebody watches."""
    return {"bar": True, "lines": False, "off": False}.get(str(options.get("progress")))


def _run_on(parts: Parts, purpose: str, options: dict[str, Any], epochs: _Epochs | None) -> dict[str, Any]:
    from strata import _train

    named = {} if parts.name is None else {"graph": parts.name}
    given = named | {name: _value(value) for name, value in options.items() if value is not None}
    process = _process.process()
    here = {} if "cluster" in given else _process.choices()  # init() chose for the ranks that are here
    for name, chosen in here.items():
        if name not in given and name.replace("_", "-") not in given:
            given[name] = chosen
    shown = _shows_bars(options)
    bars = None if shown is False else Bars(_train, shown)
    gpu = int(process.device.partition(":")[2]) if process.device.startswith("cuda") else None  # on which this rank's graphs lie
    calls = epochs if epochs is not None and epochs.function is not None else None
    job = _train.TrainJob.start(given, f"strata.{purpose}", process.ranks(), _process.log_level(), purpose, gpu, calls is not None)
    may_free = [purpose == "train" and parts.is_copy and not given.get("start_early")]

    def meanwhile() -> None:
        if may_free[0] and job.must_be_waited_for():  # all ranks have loaded the graph
            may_free[0] = False
            parts.free()
        if calls is not None:
            calls.answer(job)

    def left(result: dict[str, Any]) -> str:
        if purpose != "train" or not result["stopped"]:
            return ""
        data = "data, " if parts.is_copy else ""
        return f"stopped with a checkpoint: strata.train({data}resume={result['folder']!r}) continues"

    result: dict[str, Any] = finish(job, bars, left, meanwhile)
    if calls is not None:
        calls.note(left(result))
    return result


def _value(value: Any) -> Any:
    """The value as a configuration file could have it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # NumPy's and torch's numbers and arrays
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_value(entry) for entry in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value
