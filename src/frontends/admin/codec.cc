// SPDX-License-Identifier: Apache-2.0
// nlohmann::json throws; all exceptions are caught in this file.
#include "frontends/admin/codec.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "frontends/admin/codec_cache.h"
#include "frontends/admin/codec_cluster.h"
#include "frontends/admin/codec_config.h"
#include "frontends/admin/codec_finding.h"
#include "frontends/admin/codec_job.h"
#include "frontends/admin/codec_mount.h"
#include "frontends/admin/trace_view.h"
#include "http/json_fields.h"
#include "http/status_codes.h"

namespace leat {
namespace {

std::string kind_name(FileKind kind) {
  return kind == FileKind::kFile ? "file" : "directory";
}

FileKind kind_from(const Json& json) {
  return json.value("kind", "file") == "directory" ? FileKind::kDirectory : FileKind::kFile;
}

void decode(const Json& json, TreeSum& sum) {
  get(json, "files", sum.files);
  get(json, "bytes", sum.bytes);
  get(json, "cached_bytes", sum.cached_bytes);
  get(json, "partial", sum.partial);
}

void decode(const Json& json, EntryView& entry) {
  require_bytes(json, "name", entry.name);
  entry.kind = kind_from(json);
  get(json, "size", entry.size);
  get(json, "version", entry.version);
  std::string mtime;
  get(json, "mtime", mtime);
  if (auto time = parse_time(mtime)) entry.mtime = *time;
  auto cached = json.find("cached_bytes");
  if (cached != json.end() && cached->is_number()) entry.cached_bytes = cached->get<uint64_t>();
  if (auto below = json.find("below"); below != json.end()) decode(*below, entry.below.emplace());
}

void decode(const Json& json, ListView& list) {
  get_bytes(json, "path", list.path);
  list.kind = kind_from(json);
  for (const Json& item : json.at("entries")) decode(item, list.entries.emplace_back());
  get_bytes(json, "next", list.next);
  get(json, "skipped", list.skipped);
}

void decode(const Json& json, StatView& stat) {
  decode(json, stat.entry);
  get_bytes(json, "path", stat.path);
  get_bytes(json, "mount", stat.mount);
  get_bytes(json, "source", stat.source);
  get_bytes(json, "fuse_mount", stat.fuse_mount);
  get(json, "served_by", stat.served_by);
}

void decode(const Json& json, UnavailableView& store) {
  get(json, "store", store.store);
  get(json, "seconds", store.seconds);
  get(json, "waiting", store.waiting);
  get(json, "reason", store.reason);
}

void decode(const Json& json, DaemonStatus& status) {
  get(json, "version", status.version);
  get(json, "pid", status.pid);
  get(json, "supervisor_pid", status.supervisor_pid);
  get(json, "restarts", status.restarts);
  get(json, "uptime_seconds", status.uptime_seconds);
  get(json, "rss_bytes", status.rss_bytes);
  get(json, "open_files", status.open_files);
  get(json, "open_files_max", status.open_files_max);
  get(json, "metrics_address", status.metrics_address);
  get(json, "metrics_note", status.metrics_note);
  get(json, "log_file", status.log_file);
  if (json.contains("cache")) decode(json["cache"], status.cache);
  if (json.contains("fetch")) {
    get(json["fetch"], "memory_bytes", status.memory_bytes);
    get(json["fetch"], "memory_bytes_max", status.memory_bytes_max);
    get(json["fetch"], "requests_in_flight", status.requests_in_flight);
  }
  get(json, "options", status.options);
  get(json, "counters", status.counters);
  for (const Json& mount : json.value("mounts", Json::array())) {
    decode(mount, status.mounts.emplace_back());
  }
  for (const Json& one : json.value("clusters", Json::array())) {
    decode(one, status.clusters.emplace_back());
  }
  for (const Json& store : json.value("unavailable", Json::array())) {
    decode(store, status.unavailable.emplace_back());
  }
}

void decode(const Json& json, HistoryView& history) {
  get(json, "pid", history.pid);
  get(json, "step_seconds", history.step_seconds);
  get(json, "ages_seconds", history.ages_seconds);
  get(json, "series", history.series);
}

void decode(const Json& json, UpgradeRequest& request) {
  get(json, "executable", request.executable);
}

}  // namespace

Json to_json(const std::vector<UnavailableView>& stores) {
  Json all = Json::array();
  for (const UnavailableView& one : stores) {
    all.push_back({{"store", one.store},
                   {"seconds", one.seconds},
                   {"waiting", one.waiting},
                   {"reason", one.reason}});
  }
  return all;
}

Json to_json(const DaemonStatus& status) {
  Json mounts = Json::array();
  for (const MountView& mount : status.mounts) mounts.push_back(to_json(mount));
  Json clusters = Json::array();
  for (const auto& one : status.clusters) clusters.push_back(to_json(one));
  return {{"version", status.version},
          {"pid", status.pid},
          {"supervisor_pid", status.supervisor_pid},
          {"restarts", status.restarts},
          {"uptime_seconds", status.uptime_seconds},
          {"rss_bytes", status.rss_bytes},
          {"open_files", status.open_files},
          {"open_files_max", status.open_files_max},
          {"metrics_address", status.metrics_address},
          {"metrics_note", status.metrics_note},
          {"log_file", status.log_file},
          {"cache", to_json(status.cache)},
          {"fetch",
           {{"memory_bytes", status.memory_bytes},
            {"memory_bytes_max", status.memory_bytes_max},
            {"requests_in_flight", status.requests_in_flight}}},
          {"options", status.options},
          {"counters", status.counters},
          {"mounts", mounts},
          {"clusters", clusters},
          {"unavailable", to_json(status.unavailable)}};
}

Json to_json(const HistoryView& history) {
  return {{"pid", history.pid},
          {"step_seconds", history.step_seconds},
          {"ages_seconds", history.ages_seconds},
          {"series", history.series}};
}

Json to_json(const UpgradeRequest& request) {
  return {{"executable", request.executable}};
}

Json to_json(const TreeSum& sum) {
  return {{"files", sum.files},
          {"bytes", sum.bytes},
          {"cached_bytes", sum.cached_bytes},
          {"partial", sum.partial}};
}

Json to_json(const EntryView& entry) {
  Json json = {{"kind", kind_name(entry.kind)}};
  put_bytes(json, "name", entry.name);
  if (entry.kind == FileKind::kFile) {
    json["size"] = entry.size;
    json["version"] = entry.version;
  }
  if (entry.mtime) json["mtime"] = format_time(*entry.mtime);
  if (entry.cached_bytes) json["cached_bytes"] = *entry.cached_bytes;
  if (entry.below) json["below"] = to_json(*entry.below);
  return json;
}

Json to_json(const ErrorView& failed) {
  Json json = {{"time", format_time(failed.time)}, {"code", to_string(failed.code)}};
  put_bytes(json, "mount", failed.mount);
  put_bytes(json, "path", failed.path);
  put_bytes(json, "reason", failed.reason);
  return json;
}

Json to_json(const ListView& list) {
  Json entries = Json::array();
  for (const EntryView& entry : list.entries) entries.push_back(to_json(entry));
  Json json = {{"kind", kind_name(list.kind)}, {"entries", entries}, {"skipped", list.skipped}};
  put_bytes(json, "path", list.path);
  if (!list.next.empty()) put_bytes(json, "next", list.next);
  return json;
}

Json to_json(const StatView& stat) {
  Json json = to_json(stat.entry);
  put_bytes(json, "path", stat.path);
  put_bytes(json, "mount", stat.mount);
  put_bytes(json, "source", stat.source);
  put_bytes(json, "fuse_mount", stat.fuse_mount);
  if (!stat.served_by.empty()) json["served_by"] = stat.served_by;
  return json;
}

template <class T>
Result<T> from_json(const Json& json) {
  try {
    T value;
    decode(json, value);
    return value;
  } catch (const Json::exception& failure) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("the JSON is not of the documented form: {}", failure.what()));
  }
}
template Result<MountRequest> from_json(const Json&);
template Result<MountView> from_json(const Json&);
template Result<MountChange> from_json(const Json&);
template Result<MountMove> from_json(const Json&);
template Result<UnsentView> from_json(const Json&);
template Result<FlushRequest> from_json(const Json&);
template Result<FlushView> from_json(const Json&);
template Result<DaemonStatus> from_json(const Json&);
template Result<HistoryView> from_json(const Json&);
template Result<UpgradeRequest> from_json(const Json&);
template Result<JobRequest> from_json(const Json&);
template Result<JobView> from_json(const Json&);
template Result<EntryView> from_json(const Json&);
template Result<ListView> from_json(const Json&);
template Result<StatView> from_json(const Json&);
template Result<CachedListView> from_json(const Json&);
template Result<EvictRequest> from_json(const Json&);
template Result<EvictView> from_json(const Json&);
template Result<SnapshotView> from_json(const Json&);
template Result<SnapshotUse> from_json(const Json&);
template Result<OptionView> from_json(const Json&);
template Result<ReloadView> from_json(const Json&);
template Result<ClusterStatusView> from_json(const Json&);
template Result<ClusterMountView> from_json(const Json&);
template Result<ClusterMountRequest> from_json(const Json&);
template Result<ClusterDrainRequest> from_json(const Json&);
template Result<ClusterJobRequest> from_json(const Json&);
template Result<ClusterJobView> from_json(const Json&);
template Result<Finding> from_json(const Json&);
template Result<TraceView> from_json(const Json&);
template Result<SlowView> from_json(const Json&);

Result<Json> parse_json(const std::string& text, const char* what) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    return error(StatusCode::kInvalidArgument, fmt::format("{} is not JSON", what));
  }
  return json;
}

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string format_time(WallTime time) {
  auto whole = std::chrono::floor<std::chrono::seconds>(time);
  auto nanoseconds = (time - whole).count();
  std::time_t seconds = whole.time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::string text = fmt::format("{:%Y-%m-%dT%H:%M:%S}", parts);
  if (nanoseconds != 0) {
    text += fmt::format(".{:09}", nanoseconds);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + "Z";
}

Result<WallTime> parse_time(const std::string& text) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  int64_t nanoseconds = 0;
  if (rest != nullptr && *rest == '.') {
    ++rest;
    for (int64_t unit = 100'000'000; *rest >= '0' && *rest <= '9'; ++rest, unit /= 10) {
      nanoseconds += (*rest - '0') * unit;
    }
  }
  if (rest == nullptr || std::string_view(rest) != "Z") {
    return error(StatusCode::kInvalidArgument, fmt::format("'{}' is not a time", text));
  }
  return WallTime(std::chrono::seconds(timegm(&parts)) + std::chrono::nanoseconds(nanoseconds));
}

HttpResponse error_response(const Status& status) {
  return HttpResponse::failure(http_status_of(status.code()), to_string(status.code()),
                               status.to_string());
}

Status status_of(const HttpResponse& response) {
  Json body = Json::parse(response.body, nullptr, false);
  if (body.is_object() && body.contains("error") && body["error"].is_object()) {
    const Json& reason = body["error"];
    auto code = reason.find("code"), message = reason.find("message");
    if (code != reason.end() && code->is_string() && message != reason.end() &&
        message->is_string()) {
      return {status_code_named(code->get<std::string>()).value_or(StatusCode::kInternal),
              message->get<std::string>()};
    }
  }
  return {StatusCode::kInternal,
          fmt::format("the daemon answered {} without saying why", response.status)};
}

}  // namespace leat
