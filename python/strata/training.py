# SPDX-License-Identifier: Apache-2.0
"""Training in one call: strata-train's options by the same names, and what a run came to as values."""

from __future__ import annotations

import inspect
import json
import os
import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata import _process
from strata._arguments import place
from strata._jobs import Bars, finish
from strata._torch import require_torch

if TYPE_CHECKING:
    import torch

    from strata.reports.page import Page


# As `strata-train --help all` lists them; editors and help() show them as the arguments of train().
_OPTIONS = """
    graph output overwrite resume init_from start_early model aggregate hidden heads residual fanouts sampler inductive
    replace dropout input_dropout attention_dropout batch_size global_batch_size epochs lr weight_decay optimizer
    lr_schedule warmup_steps clip_grad loss label_smoothing class_weights accumulate seed checkpoint_every cuda_graph
    sm_split precision eval_every eval_fanouts metric patience device ranks_per_machine gpu_memory placement host_gather
    replicate_graph exchange row_exchange_precision halo_cache watchdog trace log_every log_level progress
    feature_format sampler_device pipeline seeds on_nan
""".split()


@dataclass(frozen=True)
class Scores:
    """Scores of one split, over all ranks; NaN where a score has no meaning."""

    nodes: int
    loss: float
    accuracy: float
    macro_f1: float
    roc_auc: float


@dataclass(frozen=True)
class TrainResult:
    """The result of a training run; the same on every rank.

    Attributes:
        valid, test: scores of the best model.
        best_epoch: by validation; 1 is the first.
        epochs: that were trained.
        seeds_per_second: of all ranks over the whole training time.
        stopped: another rank was asked to stop; the run wrote a checkpoint.
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
        return (
            f"strata.TrainResult(valid={self.valid.accuracy:.4f}, test={self.test.accuracy:.4f}, best_epoch={self.best_epoch}, "
            f"epochs={self.epochs}, folder={str(self.folder)!r})"
        )


def train(**options: Any) -> TrainResult:
    """Trains a model as strata-train does. Collective: all ranks give the same options.

        result = strata.train(graph="parts", model="sage", fanouts=[15, 10, 5], epochs=3)
        print(result.test.accuracy, [record["loss"] for record in result.records_of("epoch")])
        model.load_state_dict(result.weights)          # PyTorch Geometric's GraphSAGE of these sizes

    Args:
        options: those of strata-train, with _ for - (help(strata.train) has their names, `strata-train --help all` what they
            do), and values as a configuration file has them: fanouts=[15, 10, 5], batch_size=1024, gpu_memory="60GiB", pipeline=False, resume="runs/last",
            config="job.toml" ... None leaves an option out. Without `output` the run gets a folder of its own in runs.
            The device and the virtual machines are those of strata.init(), unless they are given. progress="auto" shows
            bars on a terminal and in notebooks. Without log_level the terminal shows what strata.set_log_level() says.

    Raises:
        InputError, OutOfMemory and their like. Ctrl-C stops the run after the step under way, with a checkpoint from which
        resume=FOLDER continues, as the KeyboardInterrupt says; a second Ctrl-C does not wait for that.
    """
    result = _run("train", options)
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


train.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in _OPTIONS], return_annotation=TrainResult
)


def plan(**options: Any) -> dict[str, Any]:
    """Predicts what a run with these options needs and how fast it is: `strata-plan --json`. Collective.

    Args:
        options: those of train(), and cluster="machines=16,gpus=8,..." for machines that are not here.
    """
    record: dict[str, Any] = json.loads(_run("plan", options)["records"])
    return record


def report(*runs: str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> Page:
    """A page about one run of strata-train, about several side by side, or about a partition; a notebook shows it.

    Args:
        runs: folders of runs, such as "runs/last"; they may still train. Or the facts about a partition, "parts.html.json".
        output: a file to write the page to, too.
    """
    from strata import reports

    return reports.report(*runs, output=output)


def _run(function: str, options: dict[str, Any]) -> dict[str, Any]:
    require_torch()
    from strata import _train

    _train.prepare_process()
    given = {name: _value(value) for name, value in options.items() if value is not None}
    if "graph" in given:
        given["graph"] = place(given["graph"], "graph", ', parts = strata.partition("npy:FOLDER", parts=1, output="parts"), graph="parts"')
    process = _process.join(given.get("device", "auto"), given.get("ranks_per_machine", 0))
    here = {} if "cluster" in given else _process.choices()  # init() chose for the ranks that are here
    for name, chosen in here.items():
        if name not in given and name.replace("_", "-") not in given:
            given[name] = chosen
    progress = given.get("progress", "auto")
    bars = None if progress in ("lines", "off") else Bars(_train, True if progress == "bar" else None)
    gpu = int(process.device.partition(":")[2]) if process.device.startswith("cuda") else None  # on which this rank's graphs lie
    job = _train.TrainJob.start(given, f"strata.{function}", process.ranks(), _process.log_level(), function == "plan", gpu)
    result: dict[str, Any] = finish(
        job, bars, lambda left: f"stopped with a checkpoint: strata.train(resume={left['folder']!r}) continues" if left["stopped"] else ""
    )
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
