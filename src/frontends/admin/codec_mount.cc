// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/codec_mount.h"

#include <fmt/format.h>

#include <charconv>

#include "http/json_fields.h"

namespace leat {
namespace {

template <class T>
void get_enough(const Json& json, const char* name, T& out) {
  uint64_t value = out;
  get(json, name, value);
  out = static_cast<T>(value);
}

// Accepts text such as "022", and numbers.
void get_umask(const Json& json, mode_t& out) {
  auto found = json.find("umask");
  if (found != json.end() && found->is_string()) {
    if (auto mask = parse_umask(found->get<std::string>())) {
      out = *mask;
      return;
    }
  }
  get_enough(json, "umask", out);
}

std::string umask_text(mode_t umask) {
  return fmt::format("{:03o}", umask);
}

// [{"path": …, "options": {…}}], because JSON member names must be UTF-8.
void get_paths(const Json& json, std::map<std::string, OptionValues>& paths) {
  for (const Json& item : json.value("paths", Json::array())) {
    std::string path;
    require_bytes(item, "path", path);
    get(item, "options", paths[path]);
  }
}

Json paths_to_json(const std::map<std::string, OptionValues>& paths) {
  Json list = Json::array();
  for (const auto& [path, options] : paths) {
    put_bytes(list.emplace_back(Json{{"options", options}}), "path", path);
  }
  return list;
}

// Members common to MountRequest and MountView.
template <class Mount>
void get_shared(const Json& json, Mount& mount) {
  get(json, "options", mount.options);
  get(json, "freshness", mount.freshness);
  get_paths(json, mount.paths);
  get(json, "allow_other", mount.allow_other);
  get(json, "inspection", mount.inspection);
  get_enough(json, "uid", mount.uid);
  get_enough(json, "gid", mount.gid);
  get_umask(json, mount.umask);
}

template <class Mount>
Json shared_to_json(const Mount& mount) {
  return {{"options", mount.options},
          {"freshness", mount.freshness},
          {"paths", paths_to_json(mount.paths)},
          {"allow_other", mount.allow_other},
          {"inspection", mount.inspection},
          {"uid", mount.uid},
          {"gid", mount.gid},
          {"umask", umask_text(mount.umask)}};
}

}  // namespace

void decode(const Json& json, MountRequest& request) {
  require_bytes(json, "source", request.source);
  require_bytes(json, "path", request.path);
  get_shared(json, request);
  get(json, "snapshot", request.snapshot);
  get(json, "passthrough", request.passthrough);
  get(json, "probe", request.probe);
}

void decode(const Json& json, MountView& view) {
  require_bytes(json, "path", view.path);
  get_bytes(json, "source", view.source);
  get_shared(json, view);
  get(json, "read_only", view.read_only);
  get(json, "own_fuse_mount", view.own_fuse_mount);
  get(json, "features", view.features);
  get(json, "passthrough_off", view.passthrough_off);
  get(json, "passthrough_files", view.passthrough_files);
  get(json, "empty", view.empty);
  if (json.contains("unsent")) decode(json["unsent"], view.unsent.emplace());
}

void decode(const Json& json, UnsentView& view) {
  get(json, "changes", view.changes);
  get(json, "bytes", view.bytes);
  get(json, "local_bytes", view.local_bytes);
  get(json, "oldest_seconds", view.oldest_seconds);
  get(json, "error", view.error);
}

void decode(const Json& json, FlushRequest& request) {
  require_bytes(json, "path", request.path);
}

void decode(const Json& json, FlushView& view) {
  get(json, "done", view.done);
  if (json.contains("unsent")) decode(json["unsent"], view.unsent);
}

void decode(const Json& json, MountChange& change) {
  require_bytes(json, "path", change.path);
  get(json, "set", change.set);
  get(json, "unset", change.unset);
}

void decode(const Json& json, MountMove& move) {
  require_bytes(json, "from", move.from);
  require_bytes(json, "to", move.to);
}

Json to_json(const MountRequest& request) {
  Json json = shared_to_json(request);
  json.update({{"snapshot", request.snapshot},
               {"passthrough", request.passthrough},
               {"probe", request.probe}});
  put_bytes(json, "source", request.source);
  put_bytes(json, "path", request.path);
  return json;
}

Json to_json(const MountView& view) {
  Json json = shared_to_json(view);
  json.update({{"read_only", view.read_only},
               {"own_fuse_mount", view.own_fuse_mount},
               {"features", view.features},
               {"passthrough_off", view.passthrough_off},
               {"passthrough_files", view.passthrough_files}});
  if (view.empty) json["empty"] = true;
  if (view.unsent) json["unsent"] = to_json(*view.unsent);
  put_bytes(json, "path", view.path);
  put_bytes(json, "source", view.source);
  return json;
}

Json to_json(const UnsentView& view) {
  Json json{{"changes", view.changes},
            {"bytes", view.bytes},
            {"local_bytes", view.local_bytes},
            {"oldest_seconds", view.oldest_seconds}};
  if (!view.error.empty()) json["error"] = view.error;
  return json;
}

Json to_json(const FlushRequest& request) {
  Json json = Json::object();
  put_bytes(json, "path", request.path);
  return json;
}

Json to_json(const FlushView& view) {
  return {{"done", view.done}, {"unsent", to_json(view.unsent)}};
}

Json to_json(const MountChange& change) {
  Json json = {{"set", change.set}, {"unset", change.unset}};
  put_bytes(json, "path", change.path);
  return json;
}

Json to_json(const MountMove& move) {
  Json json = Json::object();
  put_bytes(json, "from", move.from);
  put_bytes(json, "to", move.to);
  return json;
}

Result<mode_t> parse_umask(const std::string& text) {
  unsigned mask = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), mask, 8);
  if (failed != std::errc() || end != text.data() + text.size() || mask > 0777) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("umask '{}' is not an octal number up to 777", text));
  }
  return mask;
}

}  // namespace leat
