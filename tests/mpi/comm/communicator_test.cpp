// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <thread>

#include "collectives/pieces.hpp"
#include "strata/util/error.hpp"
#include "support/mpi_world.hpp"

namespace strata::comm {
namespace {

using test::world;
using testing::HasSubstr;

/// Bytes that name their sender, receiver and position.
char byte_of(int from, int to, Count i) { return static_cast<char>(from * 31 + to * 17 + i % 251); }

std::vector<char> message(int from, int to, Count bytes) {
  std::vector<char> data(at(bytes));
  for (Count i = 0; i < bytes; ++i) data[at(i)] = byte_of(from, to, i);
  return data;
}

std::string blob_of(int rank) { return std::string(at(rank * 37), static_cast<char>('a' + rank)); }

/// Piece sizes: the real one, and one so small that everything is sent in many pieces.
class CommunicatorTest : public testing::TestWithParam<Count> {
 protected:
  CommunicatorTest() : communicator_(world().communicator().duplicate()) {
    set_piece_bytes(communicator_, GetParam());
  }
  void TearDown() override {
    if (!HasFailure()) communicator_.close();
  }
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }

  Communicator communicator_;
};

INSTANTIATE_TEST_SUITE_P(Pieces, CommunicatorTest, testing::Values(Count{16}, kPieceBytes));

TEST_P(CommunicatorTest, BroadcastsFromEveryRoot) {
  for (int root = 0; root < size(); ++root) {
    for (const Count bytes : {Count{0}, Count{1}, Count{16}, Count{1001}}) {
      std::vector<char> data = rank() == root ? message(root, 0, bytes) : std::vector<char>(at(bytes), 'x');
      communicator_.broadcast(data.data(), bytes, root);
      EXPECT_EQ(data, message(root, 0, bytes)) << "root " << root << ", bytes " << bytes;
    }
  }
}

TEST_P(CommunicatorTest, GathersBlobsInOrderOfRank) {
  std::vector<std::string> expected;
  for (int r = 0; r < size(); ++r) expected.push_back(blob_of(r));
  EXPECT_EQ(communicator_.all_gather(blob_of(rank())), expected);
  for (int root = 0; root < size(); ++root) {
    const auto gathered = communicator_.gather(blob_of(rank()), root);
    EXPECT_EQ(gathered, rank() == root ? expected : std::vector<std::string>{}) << "root " << root;
  }
}

template <typename T>
void expect_reduced(const Communicator& communicator, std::size_t count) {
  const int size = communicator.size();
  std::vector<T> mine(count);
  for (std::size_t i = 0; i < count; ++i)
    mine[i] = static_cast<T>(static_cast<int>(i) - 5 * communicator.rank());
  std::vector<T> sum = mine, low = mine, high = mine;
  communicator.all_reduce(std::span(sum));
  communicator.all_reduce(std::span(low), Communicator::Op::min);
  communicator.all_reduce(std::span(high), Communicator::Op::max);
  for (std::size_t i = 0; i < count; ++i) {
    const int first = static_cast<int>(i), last = first - 5 * (size - 1);
    ASSERT_EQ(sum[i], static_cast<T>(size * (first + last) / 2)) << i;
    ASSERT_EQ(low[i], static_cast<T>(last)) << i;
    ASSERT_EQ(high[i], static_cast<T>(first)) << i;
  }
}

TEST_P(CommunicatorTest, ReducesEveryTypeAndOperation) {
  for (const std::size_t count : {0, 1, 4, 1001}) {
    expect_reduced<float>(communicator_, count);
    expect_reduced<double>(communicator_, count);
    expect_reduced<std::int64_t>(communicator_, count);
  }
}

TEST_P(CommunicatorTest, ReducesIntegersThatNoDoubleHolds) {
  std::int64_t value = (std::int64_t{1} << 60) + rank();
  communicator_.all_reduce(std::span(&value, 1), Communicator::Op::max);
  EXPECT_EQ(value, (std::int64_t{1} << 60) + size() - 1);
}

/// Uneven, with empty pairs among them (those where from + to is a multiple of three).
Count uneven_bytes(int from, int to) { return (from + to) % 3 == 0 ? 0 : 100 * from + 7 * to + 1; }

TEST_P(CommunicatorTest, ExchangesUnevenAndEmptyMessages) {
  std::vector<Count> send_bytes, recv_bytes;
  std::vector<char> outgoing, expected;
  for (int r = 0; r < size(); ++r) {
    send_bytes.push_back(uneven_bytes(rank(), r));
    recv_bytes.push_back(uneven_bytes(r, rank()));
    for (const char c : message(rank(), r, send_bytes.back())) outgoing.push_back(c);
    for (const char c : message(r, rank(), recv_bytes.back())) expected.push_back(c);
  }
  EXPECT_EQ(communicator_.exchange_counts(send_bytes), recv_bytes);
  std::vector<char> incoming(expected.size(), 'x');
  communicator_.all_to_all(outgoing.data(), send_bytes, incoming.data(), recv_bytes);
  EXPECT_EQ(incoming, expected);
}

TEST_P(CommunicatorTest, ExchangesNothingAtAll) {
  const std::vector<Count> none(at(size()), 0);
  EXPECT_NO_THROW(communicator_.all_to_all(nullptr, none, nullptr, none));
  const auto received = communicator_.all_to_all(std::span<const double>(), none);
  EXPECT_TRUE(received.values.empty());
  EXPECT_EQ(received.counts, none);
}

TEST_P(CommunicatorTest, ExchangesTypedValuesAtRandom) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 shared(seed);  // every rank draws the whole matrix of counts
    std::vector<std::vector<Count>> counts(at(size()));
    for (auto& row : counts) {
      for (int r = 0; r < size(); ++r)
        row.push_back(static_cast<Count>(shared() % 4 == 0 ? 0 : shared() % 300));
    }
    const auto& own = counts[at(rank())];
    std::vector<std::int64_t> values, expected;
    for (int r = 0; r < size(); ++r) {
      for (Count i = 0; i < own[at(r)]; ++i) values.push_back(rank() * 1000000 + r * 1000 + i);
      const Count incoming = counts[at(r)][at(rank())];
      for (Count i = 0; i < incoming; ++i) expected.push_back(r * 1000000 + rank() * 1000 + i);
    }
    EXPECT_EQ(communicator_.all_to_all(std::span<const std::int64_t>(values), own).values, expected)
        << "seed " << seed;
  }
}

TEST_P(CommunicatorTest, SplitsByColorAndOrdersByKey) {
  Communicator half = communicator_.split(rank() % 2, -rank());
  const int members = (size() + 1 - rank() % 2) / 2;
  EXPECT_EQ(half.size(), members);
  EXPECT_EQ(half.rank(), members - 1 - rank() / 2);
  half.close();
}

TEST_P(CommunicatorTest, ServesSeveralThreadsThroughDuplicates) {
  constexpr int kThreads = 3;
  std::vector<Communicator> communicators;
  for (int t = 0; t < kThreads; ++t) communicators.push_back(communicator_.duplicate());
  std::vector<int> wrong(kThreads, 0);
  const auto exchange = [&](int t) {
    for (int round = 0; round < 50; ++round) {
      std::int64_t sum = t * 1000 + round;
      communicators[at(t)].all_reduce(std::span(&sum, 1));
      if (sum != size() * (t * 1000 + round)) ++wrong[at(t)];
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(exchange, t);
  }
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
  for (Communicator& communicator : communicators) communicator.close();
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no CommError";
}

TEST_P(CommunicatorTest, ThrowsTheBackendsTextWithRankAndHost) {
  int value = 0;
  const std::string text = error_of([&] { communicator_.broadcast(&value, sizeof(value), 99); });
  EXPECT_THAT(text, HasSubstr(world().backend() == std::string("mpi") ? "MPI_Bcast failed: MPI_ERR_ROOT"
                                                                      : "a broadcast from rank 99"));
  EXPECT_THAT(text, HasSubstr("rank " + std::to_string(rank()) + ", host " + world().host()));
}

TEST_P(CommunicatorTest, RefusesWrongNumbersOfCounts) {
  const std::vector<Count> counts(at(size()) + 1, 0), negative(at(size()), -1);
  EXPECT_THAT(error_of([&] { communicator_.exchange_counts(counts); }), HasSubstr("counts for"));
  EXPECT_THAT(error_of([&] { communicator_.exchange_counts(negative); }), HasSubstr("negative"));
}

TEST_P(CommunicatorTest, NoticesThatLessCameThanExpected) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  std::vector<char> outgoing(64, 'a'), incoming(64, 'b');
  std::vector<Count> send_bytes(at(size()), 0), recv_bytes = send_bytes;
  if (rank() == 0) send_bytes[1] = 8;
  if (rank() == 1) recv_bytes[0] = 16;
  const std::string text =
      error_of([&] { communicator_.all_to_all(outgoing.data(), send_bytes, incoming.data(), recv_bytes); });
  EXPECT_THAT(text, HasSubstr(rank() == 1 ? "sent 8 bytes where 16 were expected" : "no CommError"));
}

TEST_P(CommunicatorTest, MakesLackOfMemoryOfTheSystemEverybodysLackOfMemory) {
  for (const int last : {0, size() - 1}) {  // the first rank, or all of them
    ExitCode code = ExitCode::ok;
    bool speaks = false;
    try {
      communicator_.together([&] {
        if (rank() <= last) throw std::bad_alloc();
      });
    } catch (const std::exception& error) {
      code = exit_code(error);
      const auto* typed = dynamic_cast<const Error*>(&error);
      speaks = typed == nullptr || !typed->is_echo();
    }
    EXPECT_EQ(code, ExitCode::out_of_memory);
    EXPECT_EQ(speaks, rank() == 0);
  }
}

TEST_P(CommunicatorTest, CannotBeUsedAfterClose) {
  Communicator closed = communicator_.duplicate();
  closed.close();
  EXPECT_NO_THROW(closed.close());
  EXPECT_THAT(error_of([&] { closed.barrier(); }), HasSubstr("after it was closed"));
}

TEST(Pieces, RefusesSizesThatSplitValuesOrOverflow) {
  Communicator communicator = world().communicator().duplicate();
  for (const Count bytes : {Count{0}, Count{-8}, Count{12}, kPieceBytes + 8}) {
    EXPECT_THROW(set_piece_bytes(communicator, bytes), CommError) << bytes;
  }
  communicator.close();
}

TEST(World, KnowsItsHost) { EXPECT_FALSE(world().host().empty()); }

}  // namespace
}  // namespace strata::comm
