// SPDX-License-Identifier: Apache-2.0
#include "peer/changes.h"

#include <fmt/format.h>

#include <algorithm>

#include "peer/flat_json.h"
#include "peer/wire_text.h"

namespace leat {
namespace {

using Kind = PeerChange::Kind;

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kObject:
      return "object";
    case Kind::kDirectory:
      return "directory";
    case Kind::kAll:
      return "all";
  }
  return "all";
}

class ChangesSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    return name == "number" ? value.get(name, result.number) : Result<>();
  }
  Result<> begin_item() override {
    if (result.changes.size() == kChangesMax) return wrong("there are too many changes");
    change_ = {};
    kind_.clear();
    return {};
  }
  Result<> item_member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "mount") return value.get(name, change_.mount);
    if (name == "key") return value.get(name, change_.key);
    if (name == "kind") return value.get(name, kind_);
    return {};
  }
  Result<> end_item() override {
    if (kind_.empty()) return wrong("a change has no kind");
    LEAT_CHECK_OK(check_mount(change_.mount));
    if (kind_ == to_string(Kind::kObject)) {
      change_.kind = Kind::kObject;
      LEAT_CHECK_OK(check_key(change_.key, true));
    } else if (kind_ == to_string(Kind::kDirectory)) {
      change_.kind = Kind::kDirectory;
      LEAT_CHECK_OK(check_prefix(change_.key));
    } else {
      change_.key.clear();
    }
    result.changes.push_back(std::move(change_));
    return {};
  }

  PeerChanges result;

 private:
  PeerChange change_;
  std::string kind_;
};

}  // namespace

std::string encode_changes(const PeerChanges& changes) {
  FlatJsonWriter json;
  json.reserve(64 + changes.changes.size() * 128);
  json.number("number", changes.number);
  json.begin_list("changes");
  for (const PeerChange& change : changes.changes) {
    json.begin_item();
    json.bytes("mount", change.mount);
    if (change.kind != Kind::kAll) json.bytes("key", change.key);
    json.text("kind", to_string(change.kind));
    json.end_item();
  }
  json.end_list();
  return json.take();
}

Result<PeerChanges> decode_changes(std::string_view json) {
  ChangesSink sink;
  LEAT_CHECK_OK(read_flat_json(json, "a list of changes", "changes", sink));
  return std::move(sink.result);
}

HttpRequest to_http(const ChangesQuery& query) {
  HttpRequest request;
  request.path = kChangesPath;
  request.query = {{"after", fmt::format_int(query.after).str()},
                   {"wait-ms", fmt::format_int(query.wait.count()).str()}};
  return request;
}

Result<ChangesQuery> changes_query_from(const HttpRequest& request) {
  ChangesQuery query;
  const auto after = request.query.find("after");
  if (after != request.query.end()) {
    const auto number = parse_decimal<uint64_t>(after->second);
    if (!number) return wrong(fmt::format("after '{}' is no number", after->second));
    query.after = *number;
  }
  const auto wait = request.query.find("wait-ms");
  if (wait != request.query.end()) {
    const auto count = parse_decimal<int64_t>(wait->second);
    if (!count) return wrong(fmt::format("wait-ms '{}' is no number", wait->second));
    query.wait = std::min(std::chrono::milliseconds(*count), kChangesWaitMax);
  }
  return query;
}

}  // namespace leat
