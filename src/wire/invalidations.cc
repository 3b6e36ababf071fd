// SPDX-License-Identifier: Apache-2.0
#include "wire/invalidations.h"

#include <fmt/format.h>

#include <algorithm>

#include "wire/flat_json.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

using Kind = Invalidation::Kind;

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

class InvalidationsSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    return name == "number" ? value.get(name, result.number) : Result<>();
  }
  Result<> begin_item() override {
    if (result.items.size() == kInvalidationsMax) return wrong("there are too many changes");
    item_ = {};
    kind_.clear();
    return {};
  }
  Result<> item_member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "mount") return value.get(name, item_.mount);
    if (name == "key") return value.get(name, item_.key);
    if (name == "kind") return value.get(name, kind_);
    return {};
  }
  Result<> end_item() override {
    if (kind_.empty()) return wrong("a change has no kind");
    LEAT_CHECK_OK(check_mount(item_.mount));
    if (kind_ == to_string(Kind::kObject)) {
      item_.kind = Kind::kObject;
      LEAT_CHECK_OK(check_key(item_.key, true));
    } else if (kind_ == to_string(Kind::kDirectory)) {
      item_.kind = Kind::kDirectory;
      LEAT_CHECK_OK(check_prefix(item_.key));
    } else {
      item_.key.clear();
    }
    result.items.push_back(std::move(item_));
    return {};
  }

  Invalidations result;

 private:
  Invalidation item_;
  std::string kind_;
};

}  // namespace

std::string encode_invalidations(const Invalidations& invalidations) {
  FlatJsonWriter json;
  json.reserve(64 + invalidations.items.size() * 128);
  json.number("number", invalidations.number);
  json.begin_list("changes");
  for (const Invalidation& item : invalidations.items) {
    json.begin_item();
    json.bytes("mount", item.mount);
    if (item.kind != Kind::kAll) json.bytes("key", item.key);
    json.text("kind", to_string(item.kind));
    json.end_item();
  }
  json.end_list();
  return json.take();
}

Result<Invalidations> decode_invalidations(std::string_view json) {
  InvalidationsSink sink;
  LEAT_CHECK_OK(read_flat_json(json, "a list of changes", "changes", sink));
  return std::move(sink.result);
}

HttpRequest to_http(const InvalidationsQuery& query) {
  HttpRequest request;
  request.path = kInvalidationsPath;
  request.query = {{"after", fmt::format_int(query.after).str()},
                   {"wait-ms", fmt::format_int(query.wait.count()).str()}};
  return request;
}

Result<InvalidationsQuery> invalidations_query_from(const HttpRequest& request) {
  InvalidationsQuery query;
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
    query.wait = std::min(std::chrono::milliseconds(*count), kInvalidationsWaitMax);
  }
  return query;
}

}  // namespace leat
