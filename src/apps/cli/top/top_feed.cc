// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/top/top_feed.h"

namespace leat {
namespace {

// Reads secondary data: skips items that cannot be parsed.
template <class T>
std::vector<T> items_of(const std::optional<Json>& answer, const char* name) {
  std::vector<T> items;
  if (!answer) return items;
  for (const Json& json : answer->value(name, Json::array())) {
    if (auto item = from_json<T>(json)) items.push_back(*std::move(item));
  }
  return items;
}

TopSnapshot snapshot_of(DaemonStatus status) {
  return {
      .at = std::chrono::steady_clock::now(),
      .time = std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now()),
      .status = std::move(status)};
}

}  // namespace

CommandResult<TopSnapshot> TopFeed::fetch() {
  LEAT_TRY(DaemonStatus status, client_.get_as<DaemonStatus>("/v1/status"));
  TopSnapshot snapshot = snapshot_of(std::move(status));
  LEAT_TRY(Json jobs, client_.get("/v1/jobs"));
  snapshot.jobs = items_of<JobView>(jobs, "jobs");
  // A daemon of the previous version has no such list.
  if (auto slow = client_.get("/v1/slow")) snapshot.slow = items_of<SlowView>(*slow, "operations");
  return snapshot;
}

std::optional<TopSnapshot> TopFeed::try_fetch(Clock::duration timeout) {
  std::optional<Json> answer = client_.try_get("/v1/status", timeout);
  if (!answer) return std::nullopt;
  auto status = from_json<DaemonStatus>(*answer);
  if (!status) return std::nullopt;
  TopSnapshot snapshot = snapshot_of(*std::move(status));
  snapshot.jobs = items_of<JobView>(client_.try_get("/v1/jobs", timeout), "jobs");
  snapshot.slow = items_of<SlowView>(client_.try_get("/v1/slow", timeout), "operations");
  return snapshot;
}

std::optional<HistoryView> TopFeed::history(Clock::duration timeout) {
  std::optional<Json> answer = client_.try_get("/v1/history", timeout);
  if (!answer) return std::nullopt;
  auto history = from_json<HistoryView>(*answer);
  if (!history) return std::nullopt;
  return *std::move(history);
}

}  // namespace leat
