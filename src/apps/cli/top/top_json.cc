// SPDX-License-Identifier: Apache-2.0
// A sample in the form of `leat top --json` (docs/schemas/top.json).
#include "apps/cli/top/top_sample.h"
#include "http/json_fields.h"

namespace leat {
namespace {

Json origins_of(const TopSample& sample) {
  Json list = Json::array();
  for (const TopSample::Origin& one : sample.origins) {
    list.push_back({{"origin", one.origin}, {"bytes_per_second", one.bytes_per_second}});
  }
  return list;
}

Json operations_of(const TopSample& sample) {
  Json list = Json::array();
  for (const TopSample::Operation& one : sample.operations) {
    list.push_back(
        {{"operation", one.operation}, {"requests_per_second", one.requests_per_second}});
  }
  return list;
}

Json stores_of(const TopSample& sample) {
  Json list = Json::array();
  for (const TopSample::Store& one : sample.stores) {
    Json& json = list.emplace_back(Json{{"store_id", one.store_id},
                                        {"requests_per_second", one.requests_per_second},
                                        {"bytes_per_second", one.bytes_per_second}});
    put_bytes(json, "store", one.store);
    if (one.mean_seconds) json["mean_seconds"] = *one.mean_seconds;
  }
  return list;
}

Json mounts_of(const TopSample& sample) {
  Json list = Json::array();
  for (const TopSample::Mount& one : sample.mounts) {
    Json& json = list.emplace_back(Json{{"bytes_per_second", one.bytes_per_second},
                                        {"reads_per_second", one.reads_per_second},
                                        {"errors_per_second", one.errors_per_second},
                                        {"passthrough_files", one.passthrough_files}});
    put_bytes(json, "path", one.path);
    put_bytes(json, "source", one.source);
    if (one.mean_seconds) json["mean_seconds"] = *one.mean_seconds;
  }
  return list;
}

template <class T>
Json list_of(const std::vector<T>& all) {
  Json list = Json::array();
  for (const T& one : all) list.push_back(to_json(one));
  return list;
}

}  // namespace

Json to_json(const TopSample& sample) {
  Json json = {{"time", format_time(sample.time)},
               {"seconds", sample.seconds},
               {"version", sample.version},
               {"pid", sample.pid},
               {"restarts", sample.restarts},
               {"uptime_seconds", sample.uptime_seconds},
               {"bytes_per_second", sample.bytes_per_second},
               {"loaded", {{"bytes_per_second", sample.loaded_bytes_per_second}}},
               {"origins", origins_of(sample)},
               {"requests_per_second", sample.requests_per_second},
               {"operations", operations_of(sample)},
               {"retries_per_second", sample.retries_per_second},
               {"throttled_per_second", sample.throttled_per_second},
               {"failed_per_second", sample.failed_per_second},
               {"stores", stores_of(sample)},
               {"folders", mounts_of(sample)},
               {"rss_bytes", sample.rss_bytes},
               {"memory_bytes", sample.memory_bytes},
               {"memory_bytes_max", sample.memory_bytes_max},
               {"cache_used_bytes", sample.cache_used_bytes},
               {"cache_capacity_bytes", sample.cache_capacity_bytes},
               {"reads_waiting", sample.reads_waiting},
               {"requests_in_flight", sample.requests_in_flight},
               {"streams", sample.streams},
               {"window_bytes", sample.window_bytes},
               {"passthrough_opens", sample.passthrough_opens},
               {"passthrough_opens_per_second", sample.passthrough_opens_per_second},
               {"passthrough_files", sample.passthrough_files},
               {"jobs", list_of(sample.jobs)},
               {"slow", list_of(sample.slow)}};
  if (sample.hit_share) json["hit_share"] = *sample.hit_share;
  return json;
}

}  // namespace leat
