# SPDX-License-Identifier: Apache-2.0
"""The order of the modules, and what of it a source tree breaks.

    util < {cuda, graph} < comm < {tensor, torch_ranks} < plan < store < sampling < batches < nn < train < cli

A module may include its own headers and the public ones of lower modules; siblings never include each other. A private
header is included within its module only, by its path from the module's folder. Some outside libraries belong to one
module only.

Extras, which lie in a folder of their own, stand above all modules, and are siblings. The engine's tests, bindings and Python do
not know them either.

A public header is one that another module, the Python package, an example or a benchmark includes; what only its own module needs
lies beside the sources.
"""
import re
from dataclasses import dataclass
from pathlib import Path

LEVELS = [["util"], ["cuda", "graph"], ["comm"], ["tensor", "torch_ranks"], ["plan"], ["store"], ["sampling"], ["batches"], ["nn"], ["train"], ["cli"]]
EXTRAS = ["dgs", "doctor", "rpc"]
LEVEL_OF = {module: level for level, modules in enumerate([*LEVELS, EXTRAS]) for module in modules}
# strata-partition runs where no CUDA, MPI or libtorch exists.
PARTITION_MAY = {"util", "graph"}
# Only this room of it, which builds without CUDA leave out, includes CUDA, and headers that need no linking.
PARTITION_CUDA_ROOM = Path("partition/cuda")
PARTITION_CUDA_MAY = {"strata/cuda/check.cuh", "strata/cuda/kernels.cuh"}
# Plans are values, for which neither ranks nor devices are needed.
PLAN_MAY = {"util", "graph"}
PLAN_MAY_OF_TENSOR = {"strata/tensor/path_rates.hpp", "strata/tensor/placement.hpp"}
# Packages of Python that are extras, some of them without any C++.
PYTHON_EXTRAS = ["dgl", "dgs", "reports", "rpc"]


@dataclass(frozen=True)
class Outside:
    """Headers of an outside library and the modules that may include them."""

    name: str
    pattern: re.Pattern
    modules: frozenset

    def forbids(self, module, header):
        return bool(self.pattern.match(header)) and module not in self.modules


TENSOR_MODULES = frozenset({"nn", "rpc", "torch_ranks", "train", "dgs", "cli"})
HOST_ONLY = frozenset({"util", "graph", "partition", "plan"})
CUDA = Outside("CUDA", re.compile(r"(cuda\w*|cub/\S*|cooperative_groups)(\.h|\.cuh)?$"),
               frozenset(LEVEL_OF) - HOST_ONLY)
OUTSIDE = [
    CUDA,
    Outside("MPI", re.compile(r"mpi\w*\.h$"), frozenset({"comm"})),
    Outside("NCCL", re.compile(r"nccl\w*\.h$"), frozenset({"comm"})),
    Outside("Asio", re.compile(r"asio(/|\.hpp)"), frozenset({"rpc"})),
    Outside("cereal", re.compile(r"cereal/"), frozenset({"rpc"})),
    Outside("HDF5", re.compile(r"(hdf5\w*|H5\w*)\.h$"), frozenset({"graph"})),
    Outside("Arrow", re.compile(r"(arrow|parquet)/"), frozenset({"graph"})),
    Outside("METIS", re.compile(r"metis\.h$"), frozenset({"partition"})),
    Outside("toml++", re.compile(r"toml\+\+/"), frozenset({"cli"})),
    Outside("libtorch", re.compile(r"(torch|ATen|c10)/"), TENSOR_MODULES),
]

SUFFIXES = {".hpp", ".cpp", ".h", ".cuh", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


@dataclass(frozen=True)
class Include:
    file: Path
    line: int
    header: str
    quoted: bool


def includes_of(file):
    text = file.read_text()
    return [Include(file, text.count("\n", 0, m.start(2)) + 1, m.group(2), m.group(1) == '"')
            for m in INCLUDE.finditer(text)]


def module_of_header(header):
    """strata/comm/machine.hpp -> comm; None: not a header of Strata."""
    parts = header.split("/")
    return parts[1] if parts[0] == "strata" and len(parts) > 2 else None


def files_by_module(root):
    """[(module, file)] of all sources below include/strata, src, partition and extras."""
    found = []
    for base in (root / "include/strata", root / "src"):
        for file in sorted(base.rglob("*")):
            if file.suffix in SUFFIXES:
                found.append((file.relative_to(base).parts[0], file))
    found += [("partition", file) for file in sorted((root / "partition").rglob("*")) if file.suffix in SUFFIXES]
    for base in (*root.glob("extras/*/include"), *root.glob("extras/*/src")):
        found += [(base.parent.name, file) for file in sorted(base.rglob("*")) if file.suffix in SUFFIXES]
    return found


def folder_of(module, root):
    return root / ("partition" if module == "partition" else f"extras/{module}/src" if module in EXTRAS else f"src/{module}")


def include_folder_of(module, root):
    return root / (f"extras/{module}/include" if module in EXTRAS else "include")


def fault_of_module(module, header):
    """Why `module` may not include the Strata header, or an empty string."""
    other = module_of_header(header)
    if other == module:
        return ""
    if module == "partition":
        return "" if other in PARTITION_MAY else "partition may know only util and graph"
    if other not in LEVEL_OF:
        return f"{other} is no module below {module}"
    if LEVEL_OF[other] > LEVEL_OF[module]:
        return f"{other} is higher than {module}"
    if LEVEL_OF[other] == LEVEL_OF[module]:
        return f"{other} is a sibling of {module}"
    if module == "plan" and other not in PLAN_MAY and header not in PLAN_MAY_OF_TENSOR:
        return f"plan may know only {', '.join(sorted(PLAN_MAY | PLAN_MAY_OF_TENSOR))}"
    return ""


def fault_of(module, include, root):
    """Why this include is wrong, or an empty string."""
    if include.file.parent == root / PARTITION_CUDA_ROOM and include.file.suffix in (".cu", ".cuh"):
        if include.header in PARTITION_CUDA_MAY or CUDA.pattern.match(include.header):
            return ""
    for outside in OUTSIDE:
        if outside.forbids(module, include.header):
            return f"{outside.name} belongs to {', '.join(sorted(outside.modules))}"
    other = module_of_header(include.header)
    if other:
        exists = (include_folder_of(other, root) / include.header).is_file()
        return fault_of_module(module, include.header) if exists else "there is no such header"
    if include.quoted and include_folder_of(module, root) in include.file.parents:
        return "a public header may not include a private one"
    # What is left in quotes are private headers.
    if include.quoted and (".." in include.header or not (folder_of(module, root) / include.header).is_file()):
        return f"a private header is included within its module, by its path from {folder_of(module, Path())}"
    return ""


def faults_of_the_engine(root):
    """Where its tests, its bindings and its package, which belong to no module, need an extra."""
    include = re.compile(rf'^\s*#\s*include\s*["<](strata/(?:{"|".join(EXTRAS)})/[^">]+)', re.MULTILINE)
    # In a function, an import may wait until somebody calls it.
    imported = re.compile(rf"^(?:from|import) (strata\.(?:{'|'.join(PYTHON_EXTRAS)}))\b", re.MULTILINE)
    files = [file for base in (root / "tests", root / "python") for file in sorted(base.rglob("*"))]
    for file in files:
        pattern = include if file.suffix in SUFFIXES else imported if file.suffix == ".py" else None
        for match in pattern.finditer(file.read_text()) if pattern else ():
            yield f"{file.relative_to(root)}: includes {match[1]}: the engine knows no extra"


# Beside the modules: who else may be the reason that a header is public. tests/mpi/seams shows what others may add.
USERS_BESIDE = ["python", "examples", "benchmarks", "tests/mpi/seams"]


def headers_without_users(root):
    """Public headers of the engine that no other module, and nothing beside the modules, includes."""
    used = set()
    for module, file in files_by_module(root):
        used.update(i.header for i in includes_of(file) if module_of_header(i.header) != module)
    for base in USERS_BESIDE:
        for file in sorted((root / base).rglob("*")):
            if file.suffix in SUFFIXES:
                used.update(i.header for i in includes_of(file))
    for file in sorted((root / "include").rglob("*")):
        header = str(file.relative_to(root / "include"))
        if file.suffix in SUFFIXES and header not in used:
            yield f"{file.relative_to(root)}: is used by {module_of_header(header)} alone, beside whose sources it belongs"


def faults(root):
    """Every broken rule of the tree, as lines for a person."""
    found = [*faults_of_the_engine(root)]
    for module, file in files_by_module(root):
        name = file.relative_to(root)
        if module not in LEVEL_OF and module != "partition":
            found.append(f"{name}: {module} has no place in the order of modules")
            continue
        for include in includes_of(file):
            fault = fault_of(module, include, root)
            if fault:
                found.append(f"{name}:{include.line}: includes {include.header}: {fault}")
    return found
