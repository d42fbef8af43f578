// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <filesystem>
#include <string>

/// Files that readers accept: what damaged input stands beside, and what it is made from.
namespace strata::fuzz {

/// A metadata.yaml that names every array of write_graphbolt_arrays().
extern const char* const kGraphboltMetadata;

/// The arrays of a small GraphBolt dataset, in FOLDER/data.
void write_graphbolt_arrays(const std::filesystem::path& folder);

/// A metadata.json that names every file of write_dgl_chunks().
extern const char* const kDglMetadata;

/// The chunks of a small graph in DGL's chunked format, in FOLDER.
void write_dgl_chunks(const std::filesystem::path& folder);

/// Features, labels of 19 classes and edges of IGB, in their folder.
inline constexpr std::array kIgbFiles = {"processed/paper/node_feat.npy", "processed/paper/node_label_19.npy",
                                         "processed/paper__cites__paper/edge_index.npy"};

/// All of kIgbFiles, of 3 nodes and 2 columns.
void write_igb(const std::filesystem::path& folder);

/// The files of a knowledge graph in OpenKE's format, in their folder.
inline constexpr std::array kTripleFiles = {"train2id.txt", "entity2id.txt", "relation2id.txt"};

/// All of kTripleFiles, of 3 nodes and 2 relations.
void write_triples(const std::filesystem::path& folder);

/// A partition directory with one small part. The same bytes at every call.
void write_partition(const std::filesystem::path& folder);

}  // namespace strata::fuzz
