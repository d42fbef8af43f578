# SPDX-License-Identifier: Apache-2.0
"""What do streams, SM groups and MPS cost and gain? examples/python/pytorch_direct.py in each of these ways, on one GPU.

    python benchmarks/python/sharing.py [--epochs 6] [--json FILE] [--ways streams groups:20,100 processes:10,90]

Prints the median time of a step and of an epoch, GPU memory of each process and of all, and from NVML's performance monitoring
(Hopper and later; pip install nvidia-ml-py): how many of the SMs were busy, and how many of the warps that fit were resident,
over all epochs but the first. The first epoch of each way warms up. Exit code 77 without a GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
MIB = 1 << 20


@dataclasses.dataclass
class Activity:
    """Percent, over a stretch of time; None where the GPU or its driver does not report it."""

    sm_activity: float | None
    occupancy: float | None


class Monitor:
    """The first GPU."""

    def __init__(self) -> None:
        import pynvml

        self.nvml = pynvml
        pynvml.nvmlInit()
        self.gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.processes: dict[int, float] = {}
        self.used_before = self.used()
        self.peak = 0.0
        try:
            self.counts = bool(pynvml.nvmlGpmQueryDeviceSupport(self.gpu).isSupportedDevice)
        except pynvml.NVMLError:
            self.counts = False

    def used(self) -> float:
        return self.nvml.nvmlDeviceGetMemoryInfo(self.gpu).used / MIB

    def look_at_memory(self) -> None:
        self.peak = max(self.peak, self.used() - self.used_before)
        for process in self.nvml.nvmlDeviceGetComputeRunningProcesses(self.gpu):
            if process.usedGpuMemory:
                self.processes[process.pid] = max(self.processes.get(process.pid, 0), process.usedGpuMemory / MIB)

    def sample(self):
        if not self.counts:
            return None
        try:
            return self.nvml.nvmlGpmSampleGet(self.gpu, self.nvml.nvmlGpmSampleAlloc())
        except self.nvml.NVMLError as error:
            print(f"NVML does not count: {error}", file=sys.stderr)
            self.counts = False
            return None

    def activity(self, begin, end) -> Activity:
        if begin is None or end is None:
            return Activity(None, None)
        asked = self.nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = self.nvml.NVML_GPM_METRICS_GET_VERSION, 2
        asked.sample1, asked.sample2 = begin, end
        asked.metrics[0].metricId = self.nvml.NVML_GPM_METRIC_SM_UTIL
        asked.metrics[1].metricId = self.nvml.NVML_GPM_METRIC_SM_OCCUPANCY
        self.nvml.nvmlGpmMetricsGet(asked)
        return Activity(*(metric.value if metric.nvmlReturn == 0 else None for metric in asked.metrics[:2]))


def command_of(way: str, options: argparse.Namespace) -> list[str]:
    kind, _, shares = way.partition(":")
    graph = (
        f"synthetic:kind=lognormal,nodes={options.nodes},degree=20,features=256,classes=40,train={options.seeds},valid=100,test=100"
    )
    command = [sys.executable, "-u", str(REPOSITORY / "examples/python/pytorch_direct.py"), "--graph", graph, "--num-layers", "3"]
    command += ["--fan-out", "5,10,15", "--num-hidden", "256", "--batch-size", str(options.batch_size), "--data-cpu"]
    command += ["--num-epochs", str(options.epochs), "--eval-every", str(options.epochs + 1), "--log-every", "1000000"]
    if kind != "streams":
        command += ["--mps", shares]
    return [str(REPOSITORY / "launch/with-mps"), *command] if kind == "processes" else command


def measure(way: str, options: argparse.Namespace) -> dict:
    monitor, epochs, first, last, log = Monitor(), [], None, None, []
    process = subprocess.Popen(command_of(way, options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        log.append(line)
        if not line.startswith("Epoch Time"):
            continue
        last = monitor.sample()
        first = last if first is None else first
        monitor.look_at_memory()
        epochs.append(float(line.split()[-1]))
    if process.wait() != 0 or len(epochs) != options.epochs:
        sys.exit(f"{way}: exit code {process.returncode}\n{''.join(log[-20:])}")
    time.sleep(1)  # until the GPU has its memory back
    epoch = statistics.median(epochs[1:])
    return {
        "way": way,
        "step_ms": epoch / math.ceil(options.seeds / options.batch_size) * 1000,
        "epoch_seconds": epoch,
        "memory_mib": monitor.peak,
        "memory_of_processes_mib": sorted(monitor.processes.values()),
        **dataclasses.asdict(monitor.activity(first, last)),
    }


def row(result: dict) -> str:
    def percent(value: float | None) -> str:
        return f"{value:6.1f} %" if value is not None else f"{'-':>8}"

    each = " + ".join(f"{value:.0f}" for value in result["memory_of_processes_mib"]) or "-"
    return (
        f"{result['way']:<18} {result['step_ms']:8.2f} {result['epoch_seconds']:8.3f} {result['memory_mib']:9.0f} {each:>14} "
        f"{percent(result['sm_activity'])} {percent(result['occupancy'])}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--ways", nargs="+", default=["streams", "groups:10,90", "groups:20,100", "processes:10,90", "processes:100,100"]
    )
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=200_000, help="training nodes")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.epochs < 3:
        parser.error("--epochs: at least 3, for the first warms up")
    try:
        Monitor()
    except Exception as error:  # noqa: BLE001  # no package, no driver, no GPU
        print(f"-- skipped: {error}; this needs a GPU and pip install nvidia-ml-py")
        return SKIPPED
    print(f"{'':<18} {'ms/step':>8} {'epoch s':>8} {'MiB used':>9} {'of processes':>14} {'SMs busy':>8} {'warps':>8}", flush=True)
    results = []
    for way in options.ways:
        results.append(measure(way, options))
        print(row(results[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
