# SPDX-License-Identifier: Apache-2.0
"""strata-report: a page about runs, and their numbers for TensorBoard and MLPerf."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence

from . import ReportError, draw, read_run

BAD_INPUT = 2


def parser(program: str) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=program,
        description="Draws a run of strata-train, or several side by side, on one page that needs no network. The runs may still train.",
    )
    options.add_argument("runs", metavar="RUN", nargs="+", help="folder of a run, such as runs/last")
    options.add_argument("-o", "--output", metavar="FILE.html", type=pathlib.Path, help="the page (default: report.html in the folder of one run, or here)")
    options.add_argument("--tensorboard", metavar="DIR", type=pathlib.Path, help="write TensorBoard's event files, a folder per run, instead of a page")
    options.add_argument("--mllog", metavar="FILE", type=pathlib.Path, help="write the run as MLPerf's log lines instead of a page")
    options.add_argument("--mllog-benchmark", metavar="NAME", default="rgat", help="submission_benchmark of --mllog (default: %(default)s)")
    options.add_argument("--mllog-org", metavar="NAME", default="none", help="submission_org of --mllog (default: %(default)s)")
    return options


def page_path(runs: Sequence[str], output: pathlib.Path | None) -> pathlib.Path:
    if output is not None:
        return output
    return pathlib.Path(runs[0]) / "report.html" if len(runs) == 1 and pathlib.Path(runs[0]).is_dir() else pathlib.Path("report.html")


def carry_out(options: argparse.Namespace) -> None:
    if options.tensorboard is None and options.mllog is None:
        path = page_path(options.runs, options.output)
        draw(*options.runs).write(path)
        print(path)
        return
    if options.output is not None:
        raise ReportError("--output has no effect with --tensorboard and --mllog", "Call strata-report twice.")
    from . import exports

    runs = [read_run(folder) for folder in options.runs]
    if options.tensorboard is not None:
        exports.write_tensorboard(runs, options.tensorboard)
        print(options.tensorboard)
    if options.mllog is not None:
        if len(runs) > 1:
            raise ReportError(f"--mllog takes one run, not {len(runs)}", "Call strata-report --mllog once per run.")
        exports.write_mllog(runs[0], options.mllog, exports.Submission(benchmark=options.mllog_benchmark, org=options.mllog_org))
        print(options.mllog)


def main(arguments: Sequence[str] | None = None) -> int:
    program = os.environ.get("STRATA_PROGRAM", "strata-report")
    options = parser(program).parse_args(arguments)
    try:
        carry_out(options)
    except ReportError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
