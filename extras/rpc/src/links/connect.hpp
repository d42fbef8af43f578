// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <vector>

#include "strata/comm/communicator.hpp"

namespace strata::rpc {

/// A connection per rank, closed for this rank itself. Collective. Throws CommError on all ranks if two could
/// not be connected.
std::vector<asio::ip::tcp::socket> connect_all(asio::io_context& context,
                                               const comm::Communicator& communicator);

}  // namespace strata::rpc
