// SPDX-License-Identifier: Apache-2.0
#include "wire/shared_snapshot.h"

#include <fmt/format.h>

#include "cluster/record_text.h"
#include "http/json_fields.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

constexpr size_t kRunBytesMax = 64;

struct NumberName {
  const char* name;
  uint64_t SharedSnapshot::* member;
};
constexpr NumberName kNumbers[] = {{"files", &SharedSnapshot::files},
                                   {"directories", &SharedSnapshot::directories},
                                   {"bytes", &SharedSnapshot::bytes},
                                   {"left_out", &SharedSnapshot::skipped},
                                   {"file_bytes", &SharedSnapshot::file_bytes}};

Json json_of(const SharedSnapshot& snapshot) {
  Json json = {{"v", kRecordVersion},        {"name", snapshot.name},
               {"id", snapshot.id.to_hex()}, {"created_ns", snapshot.created_ns},
               {"crc", snapshot.crc},        {"run", snapshot.run}};
  put_bytes(json, "mount", snapshot.mount);
  put_bytes(json, "folder", snapshot.folder);
  for (const NumberName& number : kNumbers) json[number.name] = snapshot.*number.member;
  return json;
}

Result<SharedSnapshot> snapshot_of(const Json& json) {
  SharedSnapshot snapshot{.name = json.at("name").get<std::string>()};
  const auto id = Id128::from_hex(json.at("id").get<std::string>());
  if (!id) return error(StatusCode::kCorrupt, "a snapshot's id is none");
  snapshot.id = *id;
  require_bytes(json, "mount", snapshot.mount);
  require_bytes(json, "folder", snapshot.folder);
  snapshot.crc = json.at("crc").get<uint32_t>();
  get(json, "created_ns", snapshot.created_ns);
  get(json, "run", snapshot.run);
  for (const NumberName& number : kNumbers) get(json, number.name, snapshot.*number.member);
  return snapshot;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string member(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

}  // namespace

PlacementKey snapshot_placement(std::string_view name) {
  return PlacementKey::listing(StoreId{}, fmt::format("snapshot {}", name));
}

std::string snapshot_key(std::string_view name) {
  return fmt::format("{}{}", kSnapshotKeys, name);
}

std::string encode_snapshot(const SharedSnapshot& snapshot) {
  return text_of(json_of(snapshot));
}

Result<SharedSnapshot> decode_snapshot(std::string_view text) {
  return read_record<SharedSnapshot>(text, "the record of a snapshot", snapshot_of);
}

std::string encode_snapshots(const std::vector<SharedSnapshot>& snapshots) {
  Json list = Json::array();
  for (const SharedSnapshot& one : snapshots) list.push_back(json_of(one));
  Json json = Json::object();
  json["snapshots"] = std::move(list);
  return text_of(json);
}

Result<std::vector<SharedSnapshot>> decode_snapshots(std::string_view text) {
  using All = std::vector<SharedSnapshot>;
  return read_record<All>(text, "a list of snapshots", [](const Json& json) -> Result<All> {
    All all;
    for (const Json& item : json.at("snapshots")) {
      LEAT_TRY(SharedSnapshot one, snapshot_of(item));
      all.push_back(std::move(one));
    }
    return all;
  });
}

HttpRequest to_http(const SnapshotRequest& request) {
  HttpRequest http{.method = "POST", .path = kSnapshotsPath};
  http.query = {{"name", request.name}, {"folder", request.folder}, {"run", request.run}};
  return http;
}

Result<SnapshotRequest> snapshot_request_from(const HttpRequest& http) {
  SnapshotRequest request{
      .name = member(http, "name"), .folder = member(http, "folder"), .run = member(http, "run")};
  LEAT_CHECK_OK(check_prefix(request.folder));
  if (request.run.empty() || request.run.size() > kRunBytesMax) {
    return error(StatusCode::kInvalidArgument, "the request's 'run' is none");
  }
  return request;
}

std::string encode_snapshot_build(const SnapshotBuild& build) {
  Json json = {{"files", build.files}, {"bytes", build.bytes}};
  if (build.built) json["snapshot"] = json_of(*build.built);
  return text_of(json);
}

Result<SnapshotBuild> decode_snapshot_build(std::string_view text) {
  return read_record<SnapshotBuild>(text, "the state of a snapshot",
                                    [](const Json& json) -> Result<SnapshotBuild> {
                                      SnapshotBuild build;
                                      get(json, "files", build.files);
                                      get(json, "bytes", build.bytes);
                                      if (json.contains("snapshot")) {
                                        LEAT_TRY(build.built, snapshot_of(json.at("snapshot")));
                                      }
                                      return build;
                                    });
}

}  // namespace leat
