// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "graph_regions.hpp"
#include "load/feature_rows.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/log.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"

namespace strata::store {

/// Reads a rank's share of a machine's parts into the machine's regions, with all threads of a pool. No
/// member communicates: the caller wraps calls in Machine::together, which is also the barrier after which
/// the shares of other ranks can be read.
///
/// A rank's share of an array is one run of it, whatever parts it crosses. HostRegion::create populated the
/// pages of the same run for this rank, so reading into it causes no page faults.
class PartLoader {
 public:
  /// Where the parts are and which of them the machine of this rank hosts: [parts.first, parts.end()).
  struct Source {
    const graph::PartsOrigin& origin;
    const graph::Manifest& manifest;
    Range parts;
    bool all_lists = false;  ///< read the neighbor lists of all parts, not only of the hosted ones
    graph::Verify verify = graph::Verify::on;
  };
  struct Rank {
    int rank = 0, size = 1;  ///< within the machine
  };
  /// Opens the hosted parts. Throws InputError.
  PartLoader(const Source& source, Rank rank, ThreadPool& pool);

  NodeId first_node() const { return first_node_; }
  Count num_local() const { return num_local_; }
  Count local_edges() const { return edge_offsets_.back(); }   ///< in all lists that are read
  Count num_lists() const { return list_nodes_.count; }        ///< that the machine reads
  Range own_lists() const { return own({0, num_lists()}); }    ///< of those, the rank's share
  std::int64_t share_bytes(const LoadOptions& options) const;  ///< for a progress bar

  void read_structure(const GraphRegions& regions, ProgressBar& progress);
  /// Adds the edge ids of some of the machine's lists to `scan`.
  void scan_lists(Range lists, graph::SublistScan& scan) const;
  /// The same of lists that read_lists() read.
  void scan_lists(std::span<const NodeId> nodes, graph::SublistScan& scan) const;
  FeatureSource features() const;

  /// From now on features() has the rows of these nodes of other machines after those of this machine.
  /// They must outlive the loader's last use.
  void add_feature_rows(std::span<const NodeId> nodes);
  /// Calls visit(first node, indptr) from all threads, for chunks of a range of nodes of any machine. The
  /// indptr of a chunk counts within its part and has one entry more than the chunk has nodes.
  void visit_indptr(Range nodes, const std::function<void(NodeId, std::span<const Count>)>& visit);
  /// Where edges go; null: not wanted.
  struct Lists {
    const HostIds* indices = nullptr;
    const HostArray<EdgeId>* edge_ids = nullptr;
    const HostArray<float>* weights = nullptr;
  };
  /// Reads the list of nodes[i] to offsets[i] of `out`, with all threads.
  void read_lists(std::span<const NodeId> nodes, const Count* offsets, const Lists& out);

  /// Reads the sizes of the splits: {valid, test} of each hosted part in turn. Parts that other ranks of the
  /// machine read have zeros, so that sums over the ranks are complete.
  std::vector<std::int64_t> read_split_sizes();
  /// Writes the splits that read_split_sizes() read, given the sums of its results, and this rank's share of
  /// the training nodes of all parts.
  void write_splits(const GraphRegions& regions, std::span<const std::int64_t> sizes) const;

 private:
  struct Hosted {
    graph::PartReader reader;
    std::array<std::vector<bool>, 2> splits;  // rows in valid and in test, if this rank reads them
  };

  graph::PartReader open_part(int part) const;
  void read_list(NodeId node, Range place, const Lists& out, graph::RecentBlocks& recent) const;
  bool has_lists(int part) const { return part >= lists_.first && part < lists_.end(); }
  const graph::PartReader& reader_of(int part) const;
  Hosted& hosted(int part) { return hosted_[at(part - lists_.first)]; }
  const Hosted& hosted(int part) const { return hosted_[at(part - lists_.first)]; }
  bool reads_splits_of(int part) const { return part % rank_.size == rank_.rank; }
  Range own(Range whole) const { return share_of(whole, rank_.rank, rank_.size); }
  void open_others(Range nodes);
  template <typename Visit>
  void visit_nodes(Range nodes, Visit&& visit) const;
  template <typename Visit>
  void visit_edges(Visit&& visit) const;
  void check_indptr(int part, Range rows, std::span<const Count> indptr) const;
  void read_indptr(Range nodes, const GraphRegions& regions, ProgressBar& progress) const;
  void scan_rows(int part, Range rows, graph::SublistScan& scan, graph::RecentBlocks& recent) const;
  void read_edges(int part, Range edges, const Lists& out, Count place, graph::RecentBlocks& recent) const;
  void read_all_edges(const Lists& out, std::size_t edge_bytes, ProgressBar& progress) const;
  void read_original_ids(Range nodes, const GraphRegions& regions, ProgressBar& progress) const;
  void check_labels(int part, Range rows, const std::int32_t* labels) const;
  void read_labels(const GraphRegions& regions, ProgressBar& progress) const;
  std::vector<bool> mark_rows(int part, graph::Split split) const;
  void mark_row(int part, Count row, std::vector<bool>& marked) const;
  void write_marked(int part, const std::vector<bool>& marked, NodeId* out) const;
  void write_train(int part, const GraphRegions& regions) const;
  void read_feature_rows(Count first, Count count, std::byte* out) const;
  Count block_start(Count row) const;
  std::string describe_row(Count row) const;
  int part_of_row(Count row) const;
  NodeId node_of_row(Count row) const;
  [[noreturn]] void damaged(int part, const std::string& what) const;

  graph::PartsOrigin origin_;
  const graph::Manifest& manifest_;
  Range parts_, lists_;  // hosted parts; parts whose lists are read
  graph::Verify verify_;
  Rank rank_;
  ThreadPool& pool_;
  NodeId first_node_;
  Count num_local_;
  Range list_nodes_;                                      // of lists_
  std::span<const NodeId> added_rows_;                    // of other machines
  std::vector<Hosted> hosted_;                            // of lists_
  std::vector<std::optional<graph::PartReader>> others_;  // by part; only those that this rank's shares reach
  std::vector<Count> edge_offsets_;                       // of each of lists_ within the machine, and the end
};

}  // namespace strata::store
