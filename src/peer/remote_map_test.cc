// SPDX-License-Identifier: Apache-2.0
#include "peer/remote_map.h"

#include <gtest/gtest.h>

#include "runtime/shared_result.h"

namespace leat {
namespace {

Task<Result<ClusterViewPtr>> no_answer(Context context) {
  Result<> slept = co_await sleep_for(context, std::chrono::hours(1));
  co_return error(StatusCode::kUnavailable, slept ? "nothing" : slept.error().message());
}

// Which of `seeds` a map that begins asks first.
size_t first_asked(size_t seeds, Executor& executor) {
  const auto asked = SharedResult<size_t>::make();
  RemoteMapOptions options;
  for (size_t i = 0; i < seeds; ++i) options.seeds.push_back(std::to_string(i));
  options.ask = [asked](Context context, std::string address,
                        RegistryRevision) -> Task<Result<ClusterViewPtr>> {
    if (!asked->ready()) asked->set(std::stoul(address));
    return no_answer(std::move(context));
  };
  const auto map = RemoteMap::start(std::move(options), executor);
  const size_t first = executor.wait(asked->wait(Context::background(), "a question")).value();
  executor.wait(map->stop());
  return first;
}

TEST(RemoteMap, ClientsBeginAtAllWorkersAlike) {
  constexpr size_t kWorkers = 4000, kClients = 400;
  Executor executor;
  size_t in_last_quarter = 0;
  for (size_t i = 0; i < kClients; ++i) in_last_quarter += first_asked(kWorkers, executor) >= 3000;
  // 100 on average; half or twice of that is six deviations away.
  EXPECT_GT(in_last_quarter, kClients / 8);
  EXPECT_LT(in_last_quarter, kClients / 2);
}

}  // namespace
}  // namespace leat
