// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Names of a graph's tensors in plans, options and messages.
namespace strata::store {

inline constexpr const char* kIndptr = "indptr";
inline constexpr const char* kIndices = "indices";
inline constexpr const char* kWeights = "edge weights";
inline constexpr const char* kEdgeIds = "edge ids";
inline constexpr const char* kOriginalIds = "original ids";
inline constexpr const char* kInDegrees = "in-degrees";
inline constexpr const char* kFeatures = "features";

}  // namespace strata::store
