// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "telemetry/log.h"
#include "telemetry/slow_log.h"
#include "telemetry/trace_registry.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

const Span::Time kStart = std::chrono::steady_clock::now();

TEST(Trace, SpansLieWithinTheirParents) {
  Trace trace(true);
  const uint32_t whole = trace.begin(Span::kTop, "whole");
  const uint32_t part = trace.begin(whole, "part");
  trace.note(part, "why");
  trace.end(part);
  const std::vector<Span> spans = trace.spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].parent, Span::kTop);
  EXPECT_FALSE(spans[0].ended());
  EXPECT_EQ(spans[1].parent, whole);
  EXPECT_TRUE(spans[1].ended());
  EXPECT_EQ(spans[1].note, "why");
}

TEST(Trace, WorkOfOthersIsAdoptedWithItsOrder) {
  Trace shared(false), own(false);
  const uint32_t outer = shared.begin(Span::kTop, "outer");
  shared.begin(outer, "inner");
  const uint32_t wait = own.begin(Span::kTop, "wait");
  own.adopt(shared, wait);
  const std::vector<Span> spans = own.spans();
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[1].parent, wait);
  EXPECT_EQ(spans[2].parent, 1u);
}

TEST(Trace, WhatIsTooMuchIsCountedAndLost) {
  Trace trace(false);
  uint32_t last = 0;
  for (size_t i = 0; i < Trace::kSpansMax + 5; ++i) last = trace.begin(Span::kTop, "one");
  trace.end(last);
  trace.note(last, "nowhere");
  EXPECT_EQ(trace.spans().size(), Trace::kSpansMax);
  EXPECT_EQ(trace.lost(), 5u);
}

TEST(SlowLog, ReasonIsWhatWasWaitedForItself) {
  SlowOperation slow{.operation = "read", .path = "/a", .took = 10s, .end = kStart + 10s};
  slow.parts = {
      {.what = "fetch.store.wait", .begin = kStart, .end = kStart + 9s},
      {.what = "request", .parent = 0, .begin = kStart - 5s, .end = kStart + 6s},
      {.what = "pause", .parent = 0, .begin = kStart + 6s, .end = kStart + 9s},
      {.what = "checksum", .begin = kStart + 9s, .end = kStart + 9s + 1ms},
      {.what = "never over", .begin = kStart + 9s, .end = Span::Time::max()},
  };
  EXPECT_EQ(slow.reason(), "request 6.00 s, pause 3.00 s, never over 1.00 s");
}

TEST(SlowLog, KeepsTheLastOnes) {
  SlowLog log;
  EXPECT_FALSE(log.is_slow(1h));
  log.set_threshold(1s);
  EXPECT_FALSE(log.is_slow(999ms));
  EXPECT_TRUE(log.is_slow(1s));
  log::set_level(log::Level::kError);
  for (uint64_t i = 0; i < SlowLog::kOperationsMax + 10; ++i)
    log.add({.operation = "read", .offset = i});
  const auto kept = log.operations();
  ASSERT_EQ(kept.size(), SlowLog::kOperationsMax);
  EXPECT_EQ(kept.front().offset, SlowLog::kOperationsMax + 9);
}

TEST(TraceRegistry, RecordsRequestsOfASubscribedPath) {
  TraceRegistry registry;
  EXPECT_FALSE(registry.any_subscribed());
  const uint64_t id = registry.subscribe("/mnt/a");
  EXPECT_TRUE(registry.any_subscribed());
  EXPECT_TRUE(registry.is_subscribed("/mnt/a"));
  EXPECT_FALSE(registry.is_subscribed("/mnt/ab"));
  registry.record("/mnt/b", {.operation = "read"});
  registry.record("/mnt/a", {.operation = "open"});
  ASSERT_EQ(registry.requests(id)->size(), 1u);
  EXPECT_EQ(registry.requests(id)->front().operation, "open");
  EXPECT_TRUE(registry.unsubscribe(id));
  EXPECT_FALSE(registry.unsubscribe(id));
  EXPECT_FALSE(registry.any_subscribed());
  EXPECT_FALSE(registry.requests(id).has_value());
}

TEST(TraceRegistry, FullSubscriptionIsInactive) {
  TraceRegistry registry;
  const uint64_t id = registry.subscribe("/mnt/a");
  for (size_t i = 0; i < TraceRegistry::kRequestsMax + 3; ++i) registry.record("/mnt/a", {});
  EXPECT_EQ(registry.requests(id)->size(), TraceRegistry::kRequestsMax);
  EXPECT_FALSE(registry.is_subscribed("/mnt/a"));
  EXPECT_FALSE(registry.any_subscribed());
}

}  // namespace
}  // namespace leat
