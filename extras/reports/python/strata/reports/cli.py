# SPDX-License-Identifier: Apache-2.0
"""strata-report: a page about runs, and their numbers for TensorBoard and MLPerf."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence

from . import ReportError, draw, draw_parts, read_run, record, words
from .run import Run, folder_of, names_parts

BAD_INPUT = 2


def file_name(text: str) -> pathlib.Path:
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; name a file or a folder")
    return pathlib.Path(text)


def parser(program: str) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog=program,
        description="Draws a run of strata-train, several side by side, or a partition on one page that needs no network. The runs may still train.",
    )
    options.add_argument("runs", metavar="RUN", nargs="+", help="folder of a run, such as runs/last; or FILE.json that strata-partition build --report FILE wrote")
    options.add_argument("-o", "--output", metavar="FILE.html", type=file_name, help="the page (default: report.html in the folder of one run, or here; beside the file of a partition)")
    options.add_argument("--tensorboard", metavar="DIR", type=file_name, help="write TensorBoard's event files, a folder per run, instead of a page")
    options.add_argument("--mllog", metavar="FILE", type=file_name, help="write the run as MLPerf's log lines instead of a page")
    options.add_argument("--mllog-benchmark", metavar="NAME", help="submission_benchmark of --mllog (default: rgat)")
    options.add_argument("--mllog-org", metavar="NAME", help="submission_org of --mllog (default: none)")
    return options


def page_path(runs: Sequence[str], output: pathlib.Path | None) -> pathlib.Path:
    if output is not None:
        return output
    if draws_parts(runs):
        name = pathlib.Path(runs[0]).with_suffix("")
        return name if name.suffix == ".html" else name.with_suffix(".html")
    return folder_of(runs[0]) / "report.html" if len(runs) == 1 else pathlib.Path("report.html")


def draws_parts(runs: Sequence[str]) -> bool:
    return len(runs) == 1 and names_parts(runs[0])


def refuse_without_effect(options: argparse.Namespace) -> None:
    """Options that say something about what is not asked for."""
    if options.output is not None and (options.tensorboard is not None or options.mllog is not None):
        raise ReportError("--output has no effect with --tensorboard and --mllog", "Call strata-report twice.")
    for name in ("benchmark", "org"):
        if getattr(options, f"mllog_{name}") is not None and options.mllog is None:
            raise ReportError(f"--mllog-{name} has no effect without --mllog", "Give --mllog FILE, too.")
    if options.mllog is not None and len(options.runs) > 1:
        raise ReportError(f"--mllog takes one run, not {len(options.runs)}", "Call strata-report --mllog once per run.")


def print_damage(run: Run) -> None:
    if damage := record.damage(run):
        print(words.printable(f"{run.folder}/{damage}", sys.stderr.encoding), file=sys.stderr)


def print_path(path: pathlib.Path) -> None:
    print(words.printable(str(path), sys.stdout.encoding))


def carry_out(options: argparse.Namespace) -> None:
    refuse_without_effect(options)
    if draws_parts(options.runs) and options.tensorboard is None and options.mllog is None:
        path = page_path(options.runs, options.output)
        draw_parts(options.runs[0]).write(path)
        print_path(path)
        return
    runs = [read_run(folder) for folder in options.runs]
    for run in runs:
        print_damage(run)
    if options.tensorboard is None and options.mllog is None:
        path = page_path(options.runs, options.output)
        draw(*runs).write(path)
        print_path(path)
        return
    from . import exports

    if options.tensorboard is not None:
        exports.write_tensorboard(runs, options.tensorboard)
        print_path(options.tensorboard)
    if options.mllog is not None:
        given = {"benchmark": options.mllog_benchmark, "org": options.mllog_org}
        exports.write_mllog(runs[0], options.mllog, exports.Submission(**{name: value for name, value in given.items() if value is not None}))
        print_path(options.mllog)


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
