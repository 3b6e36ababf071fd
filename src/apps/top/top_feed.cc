// SPDX-License-Identifier: Apache-2.0
#include "apps/top/top_feed.h"

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

TopLook look_with(HostStatus status) {
  return {
      .at = std::chrono::steady_clock::now(),
      .time = std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now()),
      .status = std::move(status)};
}

}  // namespace

Attempt<TopLook> TopFeed::look() {
  LEAT_TRY(HostStatus status, client_.get_as<HostStatus>("/v1/status"));
  TopLook look = look_with(std::move(status));
  LEAT_TRY(Json jobs, client_.get("/v1/jobs"));
  look.jobs = items_of<JobView>(jobs, "jobs");
  // A daemon of the previous version has no such list.
  if (auto slow = client_.get("/v1/slow")) look.slow = items_of<SlowView>(*slow, "operations");
  return look;
}

std::optional<TopLook> TopFeed::glance(Clock::duration patience) {
  std::optional<Json> answer = client_.glance("/v1/status", patience);
  if (!answer) return std::nullopt;
  auto status = from_json<HostStatus>(*answer);
  if (!status) return std::nullopt;
  TopLook look = look_with(*std::move(status));
  look.jobs = items_of<JobView>(client_.glance("/v1/jobs", patience), "jobs");
  look.slow = items_of<SlowView>(client_.glance("/v1/slow", patience), "operations");
  return look;
}

std::optional<HistoryView> TopFeed::history(Clock::duration patience) {
  std::optional<Json> answer = client_.glance("/v1/history", patience);
  if (!answer) return std::nullopt;
  auto history = from_json<HistoryView>(*answer);
  if (!history) return std::nullopt;
  return *std::move(history);
}

}  // namespace leat
