// SPDX-License-Identifier: Apache-2.0
#include "readers/numpy/sparse_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "readers/numpy/number_types.hpp"
#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

void require_vector(const NpyArray& array, const char* what) {
  if (array.shape.size() != 1 || (!array.is('i', 4) && !array.is('i', 8)))
    throw InputError(fmt::format("{}: {} of shape {} and type {}", array.origin, what, array.shape_text(),
                                 array.type_name()),
                     "Write a vector of int32 or int64.");
}

void check_pointers(const std::vector<NodeId>& pointers, const std::string& origin, Count num_entries) {
  const std::string remedy =
      "Row v has the entries from indptr[v] up to indptr[v + 1]; write the matrix again.";
  if (pointers.empty() || pointers.front() != 0)
    throw InputError(fmt::format("{}: indptr does not begin with 0", origin), remedy);
  const auto fall = std::ranges::adjacent_find(pointers, std::ranges::greater());
  if (fall != pointers.end())
    throw InputError(fmt::format("{}: indptr falls from {} to {} at position {}", origin, *fall, *(fall + 1),
                                 fall - pointers.begin() + 1),
                     remedy);
  if (pointers.back() != num_entries)
    throw InputError(fmt::format("{}: indptr ends with {}, but there are {} indices", origin, pointers.back(),
                                 num_entries),
                     remedy);
}

/// Computes the row of every entry.
template <typename Id>
std::vector<Id> expanded(const std::vector<NodeId>& pointers) {
  std::vector<Id> rows(at(pointers.back()));
  for (std::size_t v = 0; v + 1 < pointers.size(); ++v)
    std::fill(rows.begin() + pointers[v], rows.begin() + pointers[v + 1], static_cast<Id>(v));
  return rows;
}

/// The same in a scratch file.
template <typename Id>
ScratchArray<Id> expanded(const std::vector<NodeId>& pointers, ScratchStore& scratch) {
  ScratchWriter<Id> rows(scratch);
  std::vector<Id> row;
  for (std::size_t v = 0; v + 1 < pointers.size(); ++v) {
    row.assign(at(pointers[v + 1] - pointers[v]), static_cast<Id>(v));
    rows.append(row);
  }
  return std::move(rows).finish();
}

template <typename Id>
const void* expand_to(ScratchStore& scratch, SparseEdges& edges, const std::vector<NodeId>& pointers) {
  const ScratchArray<Id> rows = expanded<Id>(pointers, scratch);
  edges.stored = rows.keep_alive();
  return rows.data();
}

const void* expand_rows(SparseEdges& edges, const std::vector<NodeId>& pointers, bool wide,
                        ScratchStore* scratch) {
  if (scratch != nullptr)
    return wide ? expand_to<std::int64_t>(*scratch, edges, pointers)
                : expand_to<std::int32_t>(*scratch, edges, pointers);
  const std::int64_t wanted = pointers.back() * (wide ? 8 : 4);
  if (const std::int64_t free = available_host_bytes(); wanted > free)
    throw OutOfMemory(
        fmt::format("{}: no room for the rows of {} entries: wanted {}, free {}", edges.second.origin,
                    format_count(pointers.back()), format_bytes(wanted), format_bytes(free)),
        "Use a host with more memory.");
  if (wide) {
    edges.wide = expanded<std::int64_t>(pointers);
    return edges.wide.data();
  }
  edges.narrow = expanded<std::int32_t>(pointers);
  return edges.narrow.data();
}

struct Compressed {
  NpyArray indptr, indices;
  bool by_destination = true;  ///< whether indptr runs over the destinations of edges
};

SparseEdges edges_of_compressed(Compressed lists, ScratchStore* scratch) {
  require_vector(lists.indptr, "indptr");
  require_vector(lists.indices, "indices");
  const std::vector<NodeId> pointers = ids_of(lists.indptr);
  check_pointers(pointers, lists.indptr.origin, lists.indices.shape[0]);
  SparseEdges edges;
  edges.second = std::move(lists.indices);
  const NpyArray& indices = edges.second;
  const bool wide = indices.item_bytes == 8;
  const void* const rows = expand_rows(edges, pointers, wide, scratch);
  edges.list = {.sources = lists.by_destination ? indices.data : rows,
                .destinations = lists.by_destination ? rows : indices.data,
                .count = indices.shape[0],
                .stride = 1,
                .wide = wide,
                .origin = indices.origin};
  edges.num_nodes = std::ssize(pointers) - 1;
  return edges;
}

SparseEdges edges_of_triples(NpyArray rows, NpyArray cols) {
  require_vector(rows, "row");
  require_vector(cols, "col");
  if (rows.shape != cols.shape || rows.item_bytes != cols.item_bytes)
    throw InputError(
        fmt::format("{}: rows of shape {} and type {}, columns of shape {} and type {}", rows.origin,
                    rows.shape_text(), rows.type_name(), cols.shape_text(), cols.type_name()),
        "Write the matrix again with scipy.sparse.save_npz.");
  SparseEdges edges;
  edges.first = std::move(rows);
  edges.second = std::move(cols);
  edges.list = {.sources = edges.first.data,
                .destinations = edges.second.data,
                .count = edges.first.shape[0],
                .stride = 1,
                .wide = edges.first.item_bytes == 8,
                .origin = edges.first.origin};
  return edges;
}

std::string format_of(const NpzFile& file, const std::filesystem::path& path) {
  if (!file.contains("format") || !file.contains("shape") || !file.contains("data"))
    throw InputError(fmt::format("{}: not a sparse matrix of scipy", path.string()),
                     "Write it with scipy.sparse.save_npz.");
  const NpyArray format = file.array("format");
  if (format.kind != 'S' || !format.shape.empty())
    throw InputError(fmt::format("{}: the format has the type {}", path.string(), format.type_name()),
                     "Write it with scipy.sparse.save_npz.");
  std::string name(reinterpret_cast<const char*>(format.data), at(format.item_bytes));
  return name.substr(0, name.find('\0'));
}

Count side_of(const NpzFile& file, const std::filesystem::path& path) {
  const NpyArray array = file.array("shape");
  const std::vector<NodeId> shape = ids_of(array);
  if (shape.size() != 2 || shape[0] != shape[1] || shape[0] < 0)
    throw InputError(fmt::format("{}: not a square matrix", path.string()),
                     "An adjacency matrix has one row and one column per node.");
  return shape[0];
}

/// Takes the values of the entries for weights unless all are 1.
void give_values(const NpyArray& values, SparseEdges& edges, ScratchStore* scratch) {
  if (values.shape.size() != 1 || values.shape[0] != edges.list.count)
    throw InputError(
        fmt::format("{}: {} values for {} entries", values.origin, values.size(), edges.list.count),
        "Write the matrix again with scipy.sparse.save_npz.");
  edges.weights.emplace(edge_weights_of(values, scratch));
  if (!edges.weights->all_are_one()) edges.weights->give_to(edges.list, values.origin);
}

SparseEdges entries_of(const NpzFile& file, const std::filesystem::path& path, Assembly& assembly) {
  const auto member = [&](const char* name) { return file.array(name, &assembly.pool, assembly.scratch); };
  const std::string format = format_of(file, path);
  if (format == "csr" || format == "csc")
    return edges_of_compressed(
        {.indptr = member("indptr"), .indices = member("indices"), .by_destination = format == "csc"},
        assembly.scratch);
  if (format == "coo") return edges_of_triples(member("row"), member("col"));
  throw InputError(fmt::format("{}: a matrix in the format {}", path.string(), printable(format)),
                   "Convert it first: scipy.sparse.save_npz(path, matrix.tocsr()).");
}

}  // namespace

SparseEdges list_edges(const std::filesystem::path& indptr, const std::filesystem::path& indices,
                       ScratchStore* scratch) {
  return edges_of_compressed({.indptr = read_npy(indptr), .indices = read_npy(indices)}, scratch);
}

SparseEdges sparse_edges(const std::filesystem::path& path, Assembly& assembly) {
  const NpzFile file(path);
  const Count nodes = side_of(file, path);
  SparseEdges edges = entries_of(file, path, assembly);
  if (edges.num_nodes.value_or(nodes) != nodes)
    throw InputError(
        fmt::format("{}: indptr is of {} rows, the matrix of {}", path.string(), *edges.num_nodes, nodes),
        "Write it again with scipy.sparse.save_npz.");
  edges.num_nodes = nodes;
  give_values(file.array("data", &assembly.pool, assembly.scratch), edges, assembly.scratch);
  return edges;
}

NodeId largest_id(const EdgeList& edges, ScratchStore* scratch) {
  constexpr Count kReleaseInterval = Count{1} << 16;
  NodeId largest = -1;
  const auto scan = [&]<typename Id>(const Id* sources, const Id* destinations) {
    for (Count i = 0; i < edges.count; ++i) {
      if (scratch != nullptr && i % kReleaseInterval == 0) scratch->trim();
      largest = std::max<NodeId>({largest, sources[i * edges.stride], destinations[i * edges.stride]});
    }
  };
  if (edges.wide)
    scan(static_cast<const std::int64_t*>(edges.sources),
         static_cast<const std::int64_t*>(edges.destinations));
  else
    scan(static_cast<const std::int32_t*>(edges.sources),
         static_cast<const std::int32_t*>(edges.destinations));
  return largest;
}

}  // namespace strata::graph
