// SPDX-License-Identifier: Apache-2.0
// The benchmarks' reads through module `source`; see plan.h.
#include <algorithm>
#include <memory>
#include <vector>

#include "plan.h"
#include "runtime/executor.h"
#include "source/source.h"

namespace leat {
namespace {

// On one thread.
Task<> work(const Plan& plan, const Watch& watch, Source& source, std::atomic<uint64_t>& next,
            std::atomic<uint64_t>& working, double& slowest_s) {
  std::vector<char> into(plan.range_bytes);
  for (uint64_t index = next++; index < plan.reads; index = next++) {
    const Plan::Read read = plan.read(index);
    ReadRequest request{
        .key = read.key, .range = {read.offset, plan.range_bytes}, .if_version = {}};
    const double began = watch.seconds();
    Result<> done = co_await source.read(Context::background(), std::move(request),
                                         std::as_writable_bytes(std::span(into)));
    if (!done) {
      std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
      std::exit(1);
    }
    slowest_s = std::max(slowest_s, watch.seconds() - began);
    plan.check(read, into.data());
  }
  if (--working == 0) working.notify_all();
}

int run(int count, char** words) {
  const Plan plan(count, words);
  const std::string url =
      "s3://" + plan.bucket + "?endpoint=" + plan.endpoint + "&region=us-east-1";
  Executor executor({.threads = 1});
  SourcePtr source = open_source(StoreUrl::parse(url).value()).value();
  std::atomic<uint64_t> next = 0, working = plan.in_flight;
  double slowest_s = 0;
  const Watch watch;
  for (uint64_t i = 0; i < plan.in_flight; ++i) {
    executor.spawn(work(plan, watch, *source, next, working, slowest_s));
  }
  for (uint64_t now = working; now > 0; now = working) working.wait(now);
  watch.print(plan, slowest_s);
  return 0;
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  return leat::run(count, words);
}
