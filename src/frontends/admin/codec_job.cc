// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/codec_job.h"

#include "http/json_fields.h"
#include "http/status_codes.h"

namespace leat {

void decode(const Json& json, JobRequest& request) {
  request.kind = json.at("kind").get<std::string>();
  require_bytes(json, "path", request.path);
  get(json, "name", request.name);
  get_each(json, "include", request.selection.include);
  get_each(json, "exclude", request.selection.exclude);
  get_bytes(json, "regex", request.selection.regex);
  get_each(json, "files", request.selection.files);
  get_bytes(json, "to", request.to);
  get(json, "overwrite", request.overwrite);
  get(json, "verify", request.verify);
  get(json, "bandwidth", request.bandwidth);
  get(json, "requests", request.requests);
  get(json, "background", request.background);
}

void decode(const Json& json, JobView& job) {
  job.id = json.at("id").get<uint64_t>();
  get(json, "kind", job.kind);
  get_bytes(json, "path", job.path);
  job.state = json.at("state").get<std::string>();
  get(json, "planned", job.planned);
  get(json, "files_total", job.files_total);
  get(json, "files_done", job.files_done);
  get(json, "files_failed", job.files_failed);
  get(json, "bytes_total", job.bytes_total);
  get(json, "bytes_done", job.bytes_done);
  get(json, "bytes_fetched", job.bytes_fetched);
  get(json, "bytes_verified", job.bytes_verified);
  get(json, "files_uncached", job.files_uncached);
  get(json, "bytes_uncached", job.bytes_uncached);
  get(json, "files_present", job.files_present);
  get(json, "automatic", job.automatic);
  get(json, "names_skipped", job.names_skipped);
  for (const Json& item : json.value("skipped", Json::array())) {
    SkippedView& skipped = job.skipped.emplace_back();
    require_bytes(item, "directory", skipped.directory);
    get(item, "names", skipped.names);
    get_bytes(item, "example", skipped.example);
  }
  get(json, "added", job.added);
  get(json, "changed", job.changed);
  get(json, "removed", job.removed);
  for (const Json& item : json.value("changes", Json::array())) {
    ChangeView& change = job.changes.emplace_back();
    get(item, "kind", change.kind);
    require_bytes(item, "path", change.path);
  }
  get(json, "seconds", job.seconds);
  std::string started;
  get(json, "started", started);
  if (auto time = parse_time(started)) job.started = *time;
  get(json, "errors", job.errors);
  get(json, "errors_total", job.errors_total);
  std::string code;
  get(json, "code", code);
  if (!code.empty()) job.code = status_code_named(code).value_or(StatusCode::kInternal);
}

Json to_json(const JobRequest& request) {
  Json json = {{"kind", request.kind}};
  if (!request.name.empty()) json["name"] = request.name;
  put_bytes(json, "path", request.path);
  put_each(json, "include", request.selection.include);
  put_each(json, "exclude", request.selection.exclude);
  if (!request.selection.regex.empty()) put_bytes(json, "regex", request.selection.regex);
  put_each(json, "files", request.selection.files);
  if (!request.to.empty()) put_bytes(json, "to", request.to);
  if (!request.overwrite.empty()) json["overwrite"] = request.overwrite;
  if (request.verify) json["verify"] = true;
  if (request.bandwidth > 0) json["bandwidth"] = request.bandwidth;
  if (request.requests > 0) json["requests"] = request.requests;
  if (request.background) json["background"] = true;
  return json;
}

Json to_json(const JobView& job) {
  Json json = {{"id", job.id},
               {"kind", job.kind},
               {"state", job.state},
               {"planned", job.planned},
               {"files_total", job.files_total},
               {"files_done", job.files_done},
               {"files_failed", job.files_failed},
               {"bytes_total", job.bytes_total},
               {"bytes_done", job.bytes_done},
               {"bytes_fetched", job.bytes_fetched},
               {"bytes_verified", job.bytes_verified},
               {"files_uncached", job.files_uncached},
               {"bytes_uncached", job.bytes_uncached},
               {"seconds", job.seconds},
               {"errors_total", job.errors_total},
               {"errors", job.errors}};
  put_bytes(json, "path", job.path);
  if (job.kind == "load") {
    json["names_skipped"] = job.names_skipped;
    Json skipped = Json::array();
    for (const SkippedView& one : job.skipped) {
      Json& item = skipped.emplace_back(Json{{"names", one.names}});
      put_bytes(item, "directory", one.directory);
      put_bytes(item, "example", one.example);
    }
    json["skipped"] = std::move(skipped);
  }
  if (job.automatic) json["automatic"] = true;
  if (job.kind == "copy") json["files_present"] = job.files_present;
  if (job.kind == "refresh") {
    Json changes = Json::array();
    for (const ChangeView& change : job.changes) {
      put_bytes(changes.emplace_back(Json{{"kind", change.kind}}), "path", change.path);
    }
    json.update({{"added", job.added},
                 {"changed", job.changed},
                 {"removed", job.removed},
                 {"changes", std::move(changes)}});
  }
  if (job.started) json["started"] = format_time(*job.started);
  if (job.code) json["code"] = to_string(*job.code);
  return json;
}

}  // namespace leat
