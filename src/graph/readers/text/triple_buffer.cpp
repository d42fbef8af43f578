// SPDX-License-Identifier: Apache-2.0
#include "readers/text/triple_buffer.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

namespace strata::graph {
namespace {

/// The pairs of ends of all relations, one relation after the other. `first` has where each begins.
template <typename Id>
std::shared_ptr<const void> grouped(const EdgeList& list, const std::vector<std::int32_t>& relations,
                                    std::vector<Count> first) {
  auto pairs = std::make_shared<std::vector<Id>>(2 * relations.size());
  const Id *const sources = static_cast<const Id*>(list.sources), *const destinations =
                                                                      static_cast<const Id*>(
                                                                          list.destinations);
  for (std::size_t e = 0; e < relations.size(); ++e) {
    const Count place = first[at(relations[e])]++;
    (*pairs)[at(2 * place)] = sources[static_cast<Count>(e) * list.stride];
    (*pairs)[at(2 * place + 1)] = destinations[static_cast<Count>(e) * list.stride];
  }
  return {pairs, pairs->data()};
}

}  // namespace

void TripleBuffer::append(std::span<const NodeId> pairs, std::span<const std::int32_t> relations,
                          double share_read) {
  edges_.append(pairs, share_read);
  relations_.insert(relations_.end(), relations.begin(), relations.end());
  for (const std::int32_t relation : relations) largest_relation_ = std::max(largest_relation_, relation);
}

std::vector<Count> TripleBuffer::counts(Count edges, std::size_t num_relations) const {
  std::vector<Count> counts(num_relations);
  for (Count e = 0; e < edges; ++e) ++counts[at(relations_[at(e)])];
  return counts;
}

void TripleBuffer::renumber(std::span<const NodeId> nodes, std::span<const NodeId> relations,
                            ThreadPool& pool) {
  edges_.renumber(nodes, pool);
  for (std::int32_t& relation : relations_) relation = static_cast<std::int32_t>(relations[at(relation)]);
}

std::vector<TypedParts::Edges> TripleBuffer::by_relation(const std::string& type,
                                                         const std::vector<std::string>& names) {
  EdgeList list = edges_.list();
  std::vector<Count> first(names.size() + 1, 0);
  for (const std::int32_t relation : relations_) ++first[at(relation) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  const std::shared_ptr<const void> pairs = list.wide ? grouped<std::int64_t>(list, relations_, first)
                                                      : grouped<std::int32_t>(list, relations_, first);
  const Count id_bytes = list.wide ? 8 : 4;
  std::vector<TypedParts::Edges> edges;
  for (std::size_t r = 0; r < names.size(); ++r) {
    const std::byte* const begin = static_cast<const std::byte*>(pairs.get()) + 2 * first[r] * id_bytes;
    list.sources = begin;
    list.destinations = begin + id_bytes;
    list.count = first[r + 1] - first[r];
    list.stride = 2;
    edges.push_back(
        {.type = {.source = type, .name = names[r], .destination = type}, .list = list, .owners = {pairs}});
  }
  return edges;
}

}  // namespace strata::graph
