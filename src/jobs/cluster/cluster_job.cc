// SPDX-License-Identifier: Apache-2.0
#include "jobs/cluster/cluster_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cluster/record_text.h"
#include "http/json_fields.h"
#include "http/status_codes.h"

namespace leat {
namespace {

// Bound of one error: a hundred of them and the spec stay far below a registry's limit.
constexpr size_t kMessageMax = 1000;

using Millis = std::chrono::milliseconds;

struct NumberName {
  const char* name;
  uint64_t JobProgress::* member;
};
constexpr NumberName kNumbers[] = {{"files_total", &JobProgress::files_total},
                                   {"files_done", &JobProgress::files_done},
                                   {"bytes_total", &JobProgress::bytes_total},
                                   {"bytes_done", &JobProgress::bytes_done},
                                   {"bytes_fetched", &JobProgress::bytes_fetched},
                                   {"bytes_verified", &JobProgress::bytes_verified},
                                   {"errors", &JobProgress::errors},
                                   {"files_failed", &JobProgress::files_failed},
                                   {"files_uncached", &JobProgress::files_uncached},
                                   {"bytes_uncached", &JobProgress::bytes_uncached},
                                   {"files_there", &JobProgress::files_already_present},
                                   {"names_skipped", &JobProgress::names_skipped}};

// Names of the modes in records. They differ from those of the command line, so that records of
// earlier programs stay readable.
struct StoredMode {
  std::string_view name;
  OverwriteMode mode;
};
constexpr StoredMode kStoredModes[] = {{"nothing", OverwriteMode::kNever},
                                       {"other", OverwriteMode::kIfDifferent},
                                       {"all", OverwriteMode::kAlways}};

std::string_view stored_name(OverwriteMode mode) {
  return std::ranges::find(kStoredModes, mode, &StoredMode::mode)->name;
}

Result<OverwriteMode> parse_stored_mode(const std::string& name) {
  const auto* found = std::ranges::find(kStoredModes, name, &StoredMode::name);
  if (found != std::end(kStoredModes)) return found->mode;
  return error(StatusCode::kCorrupt, fmt::format("'{}' is no mode of a copy", name));
}

Json json_of(const JobSpec& spec) {
  Json json = {{"kind", to_string(spec.kind)}};
  put_bytes(json, "path", spec.path);
  if (!spec.output.empty()) put_bytes(json, "to", spec.output);
  if (spec.overwrite != OverwriteMode::kNever) json["over"] = stored_name(spec.overwrite);
  put_each(json, "include", spec.selection.include);
  put_each(json, "exclude", spec.selection.exclude);
  if (!spec.selection.regex.empty()) put_bytes(json, "regex", spec.selection.regex);
  put_each(json, "files", spec.selection.files);
  if (spec.verify) json["verify"] = true;
  if (spec.bandwidth > 0) json["bandwidth"] = spec.bandwidth;
  if (spec.requests > 0) json["requests"] = spec.requests;
  if (spec.background) json["background"] = true;
  return json;
}

Result<JobSpec> job_spec_of(const Json& json) {
  JobSpec spec;
  LEAT_TRY(spec.kind, parse_job_kind(json.at("kind").get<std::string>()));
  require_bytes(json, "path", spec.path);
  get_bytes(json, "to", spec.output);
  LEAT_TRY(spec.overwrite, parse_stored_mode(json.value("over", "nothing")));
  get_each(json, "include", spec.selection.include);
  get_each(json, "exclude", spec.selection.exclude);
  get_bytes(json, "regex", spec.selection.regex);
  get_each(json, "files", spec.selection.files);
  get(json, "verify", spec.verify);
  get(json, "bandwidth", spec.bandwidth);
  get(json, "requests", spec.requests);
  get(json, "background", spec.background);
  return spec;
}

Json json_of(const JobInfo& info) {
  Json progress = {{"planned", info.progress.planned}};
  for (const NumberName& number : kNumbers) {
    progress[number.name] = info.progress.*number.member;
  }
  Json errors = Json::array();
  for (const JobError& failed : info.errors) {
    Json& one = errors.emplace_back(Json{{"code", to_string(failed.status.code())}});
    put_bytes(one, "path", failed.path);
    put_bytes(one, "message", failed.status.to_string().substr(0, kMessageMax));
  }
  Json skipped = Json::array();
  for (const SkippedNames& names : info.skipped) {
    Json& one = skipped.emplace_back(Json{{"names", names.names}});
    put_bytes(one, "directory", names.directory);
    put_bytes(one, "example", names.example.substr(0, kMessageMax));
  }
  return {
      {"state", to_string(info.state)},
      {"started_ms", std::chrono::duration_cast<Millis>(info.started.time_since_epoch()).count()},
      {"took_ms", std::chrono::duration_cast<Millis>(info.duration).count()},
      {"progress", std::move(progress)},
      {"errors", std::move(errors)},
      {"skipped", std::move(skipped)}};
}

Result<JobState> state_of(const std::string& text) {
  for (JobState state :
       {JobState::kRunning, JobState::kDone, JobState::kFailed, JobState::kCancelled}) {
    if (text == to_string(state)) return state;
  }
  return error(StatusCode::kCorrupt, fmt::format("'{}' is no state of a job", text));
}

Result<JobInfo> info_of(const Json& json) {
  JobInfo info;
  LEAT_TRY(info.state, state_of(json.at("state").get<std::string>()));
  info.started = WallTime(Millis(json.value("started_ms", int64_t{0})));
  info.duration = Millis(json.value("took_ms", int64_t{0}));
  const Json progress = json.value("progress", Json::object());
  get(progress, "planned", info.progress.planned);
  for (const NumberName& number : kNumbers) {
    get(progress, number.name, info.progress.*number.member);
  }
  for (const Json& one : json.value("errors", Json::array())) {
    std::string path, message;
    require_bytes(one, "path", path);
    require_bytes(one, "message", message);
    const auto code = status_code_named(one.at("code").get<std::string>());
    info.errors.push_back({std::move(path), Status(code.value_or(StatusCode::kInternal), message)});
  }
  for (const Json& one : json.value("skipped", Json::array())) {
    SkippedNames& names = info.skipped.emplace_back();
    get(one, "names", names.names);
    require_bytes(one, "directory", names.directory);
    get_bytes(one, "example", names.example);
  }
  return info;
}

Result<ClusterJob> job_of(const Json& json) {
  ClusterJob job{.id = json.at("id").get<uint64_t>()};
  LEAT_TRY(job.spec, job_spec_of(json.at("order")));
  LEAT_TRY(job.info, info_of(json.at("info")));
  get(json, "principal", job.principal);
  get(json, "ticket", job.idempotency_key);
  get(json, "cancel", job.cancel);
  get(json, "worker", job.worker);
  get(json, "begun", job.starts);
  get(json, "runs", job.runs);
  get(json, "reports", job.reports);
  const Json repeat = json.value("repeat", Json::object());
  job.schedule.every = std::chrono::seconds(repeat.value("every_s", int64_t{0}));
  get(repeat, "on_change", job.schedule.on_change);
  get(repeat, "on_mount", job.schedule.on_mount);
  job.info.id = job.id;
  job.info.kind = job.spec.kind;
  job.info.path = job.spec.path;
  job.info.progress.background = job.spec.background;
  return job;
}

}  // namespace

std::string cluster_job_key(uint64_t id) {
  return fmt::format("{}{:020}", kClusterJobKeys, id);
}

std::optional<uint64_t> cluster_job_number(std::string_view key) {
  if (!key.starts_with(kClusterJobKeys)) return std::nullopt;
  key.remove_prefix(kClusterJobKeys.size());
  uint64_t id = 0;
  const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (failed != std::errc() || end != key.data() + key.size()) return std::nullopt;
  return id;
}

std::string encode_cluster_job(const ClusterJob& job) {
  Json json = {{"v", kRecordVersion},
               {"id", job.id},
               {"order", json_of(job.spec)},
               {"principal", job.principal},
               {"cancel", job.cancel},
               {"worker", job.worker},
               {"begun", job.starts},
               {"runs", job.runs},
               {"repeat",
                {{"every_s", job.schedule.every.count()},
                 {"on_change", job.schedule.on_change},
                 {"on_mount", job.schedule.on_mount}}},
               {"info", json_of(job.info)}};
  if (job.reports > 0) json["reports"] = job.reports;
  if (!job.idempotency_key.empty()) json["ticket"] = job.idempotency_key;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ClusterJob> decode_cluster_job(std::string_view text) {
  return read_record<ClusterJob>(text, "a job", job_of);
}

}  // namespace leat
