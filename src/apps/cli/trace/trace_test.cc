// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/cli/trace/otlp.h"
#include "apps/cli/trace/trace_text.h"

namespace leat {
namespace {

using testing::HasSubstr;

RequestView a_read() {
  return {.time = WallTime(std::chrono::seconds(1'700'000'000)),
          .operation = "read",
          .offset = 4096,
          .bytes = 131'072,
          .seconds = 0.25,
          .spans = {
              {.what = "fetch.memory.wait", .begin = 0.001, .seconds = 0.0},
              {.what = "fetch.store.wait", .begin = 0.002, .seconds = 0.24},
              {.what = "source.request", .parent = 1, .begin = -0.1, .seconds = 0.3, .note = "s3"},
              {.what = "source.first_byte", .parent = 2, .begin = 0.003}}};
}

TEST(Trace, TextShowsWhatLiesWithinWhat) {
  EXPECT_EQ(trace_text(a_read()),
            "    0.0    250.0  read of 128.0 KiB at 4096\n"
            "    1.0      0.0  ├ fetch.memory.wait\n"
            "    2.0    240.0  └ fetch.store.wait\n"
            " -100.0    300.0    └ source.request: s3\n"
            "    3.0        …      └ source.first_byte");
}

TEST(Trace, TextOfAnAnswerFromMemoryIsOneLine) {
  EXPECT_EQ(trace_text({.operation = "open", .seconds = 0.0001}),
            "    0.0      0.1  open: answered inline, from memory");
}

TEST(Trace, SpansThatNameThemselvesEnd) {
  RequestView odd = a_read();
  odd.spans[0].parent = 0;
  odd.spans[1].parent = 3;
  EXPECT_THAT(trace_text(odd), HasSubstr("read of"));
}

TEST(Trace, OtlpNamesParentsAndTimesInNanoseconds) {
  uint64_t number = 0;
  const Json document =
      to_otlp("/mnt/a", {a_read()}, {"1.2.3", "host7"}, [&number] { return number += 2; });
  const Json& resource = document.at("resourceSpans").at(0);
  EXPECT_EQ(resource.at("resource").at("attributes").at(0).dump(),
            R"({"key":"service.name","value":{"stringValue":"leat"}})");
  const Json& spans = resource.at("scopeSpans").at(0).at("spans");
  ASSERT_EQ(spans.size(), 5u);
  const Json& root = spans.at(0);
  EXPECT_EQ(root.at("name"), "read");
  EXPECT_FALSE(root.contains("parentSpanId"));
  EXPECT_EQ(root.at("traceId").get<std::string>().size(), 32u);
  EXPECT_EQ(root.at("startTimeUnixNano"), "1700000000000000000");
  EXPECT_EQ(root.at("endTimeUnixNano"), "1700000000250000000");
  EXPECT_EQ(spans.at(2).at("parentSpanId"), root.at("spanId"));
  EXPECT_EQ(spans.at(3).at("parentSpanId"), spans.at(2).at("spanId"));
  EXPECT_EQ(spans.at(3).at("startTimeUnixNano"), "1699999999900000000");
  EXPECT_EQ(spans.at(4).at("endTimeUnixNano"), "1700000000250000000");
}

TEST(Trace, OtlpMarksFailures) {
  RequestView failed = a_read();
  failed.failure = "cannot read /mnt/a";
  const Json document = to_otlp("/mnt/a", {failed}, {}, [] { return 7u; });
  const Json& root = document.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans").at(0);
  EXPECT_EQ(root.at("status").at("code"), 2);
  EXPECT_EQ(root.at("status").at("message"), "cannot read /mnt/a");
}

}  // namespace
}  // namespace leat
