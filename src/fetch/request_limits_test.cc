// SPDX-License-Identifier: Apache-2.0
#include "fetch/request_limits.h"

#include <gtest/gtest.h>

#include <latch>
#include <optional>
#include <stop_token>
#include <vector>

#include "runtime/executor.h"

namespace leat {
namespace {

using Ticket = RequestLimits::Ticket;

std::vector<Ticket> take_ahead(RequestLimits& limits, unsigned window) {
  std::vector<Ticket> tickets;
  while (auto ticket = limits.try_ahead(window)) {
    tickets.push_back(*std::move(ticket));
    if (tickets.size() > 1000) break;
  }
  return tickets;
}

// Waits in the executor; null if the context ended first.
std::optional<Ticket> acquire(Executor& executor, RequestLimits& limits, FairGate::Ask ask,
                              Context context = {}) {
  std::optional<Ticket> taken;
  std::latch done(1);
  struct Run {
    static Task<> take(RequestLimits* limits, FairGate::Ask ask, Context context,
                       std::optional<Ticket>* taken, std::latch* done) {
      auto ticket = co_await limits->acquire(context, ask);
      if (ticket) taken->emplace(*std::move(ticket));
      done->count_down();
    }
  };
  executor.spawn(Run::take(&limits, ask, std::move(context), &taken, &done));
  done.wait();
  return taken;
}

Context ended() {
  std::stop_source stop;
  stop.request_stop();
  return Context::background().with_cancel(stop.get_token());
}

TEST(RequestLimits, PrefetchLeavesAQuarterToDemandReads) {
  Executor executor({.threads = 1});
  RequestLimits limits(16);
  std::vector<Ticket> ahead = take_ahead(limits, 16);
  EXPECT_EQ(ahead.size(), 12u);
  // Also for requests that wait instead of giving up.
  EXPECT_FALSE(acquire(executor, limits, {.yields = true}, ended()));
  std::vector<Ticket> demand;
  while (demand.size() <= 16) {
    auto ticket = acquire(executor, limits, {.group = 1}, demand.size() < 4 ? Context{} : ended());
    if (!ticket) break;
    demand.push_back(*std::move(ticket));
  }
  EXPECT_EQ(demand.size(), 4u);
}

TEST(RequestLimits, PrefetchKeepsToItsShareOfAnyLimit) {
  const std::pair<unsigned, unsigned> shares[] = {{1, 1}, {2, 1}, {3, 2}, {4, 3}, {8, 6}, {64, 48}};
  for (auto [requests, share] : shares) {
    RequestLimits limits(requests);
    EXPECT_EQ(take_ahead(limits, requests).size(), share) << requests;
  }
}

TEST(RequestLimits, PrefetchKeepsToItsShareOfTheWindow) {
  RequestLimits limits(16);
  // A store with a present window of 8.
  EXPECT_EQ(take_ahead(limits, 8).size(), 6u);
  EXPECT_EQ(take_ahead(limits, 1).size(), 1u);
}

TEST(RequestLimits, DemandReadsCountAgainstTheWindowOfPrefetch) {
  Executor executor({.threads = 1});
  RequestLimits limits(16);
  auto demand = acquire(executor, limits, {});
  ASSERT_TRUE(demand);
  EXPECT_EQ(take_ahead(limits, 8).size(), 5u);
}

TEST(RequestLimits, ATicketThatEndsMakesRoom) {
  RequestLimits limits(4);
  std::vector<Ticket> ahead = take_ahead(limits, 4);
  ASSERT_EQ(ahead.size(), 3u);
  ahead.pop_back();
  EXPECT_EQ(take_ahead(limits, 4).size(), 1u);
}

}  // namespace
}  // namespace leat
