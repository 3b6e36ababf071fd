// SPDX-License-Identifier: Apache-2.0
#include "wire/name_messages.h"

#include <fmt/format.h>

#include <optional>

#include "wire/flat_json.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr char kFile[] = "file";
constexpr char kDirectory[] = "directory";

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

std::string_view member(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? std::string_view() : found->second;
}

Result<milliseconds> parse_age(std::string_view text) {
  const auto age = parse_decimal<int64_t>(text);
  if (!age) return wrong(fmt::format("age-ms '{}' is no number", text));
  return milliseconds(*age);
}

// Fields common to list and stat.
template <class Request>
void put_common_fields(const Request& request, HttpRequest& http) {
  http.query["mount"] = request.mount;
  http.query["store"] = request.store.to_hex();
  http.query["age-ms"] = fmt::format_int(request.age_max.count()).str();
  put_request_header(request.header, http);
}

template <class Request>
Result<> read_common_fields(const HttpRequest& http, Request& request) {
  request.mount = member(http, "mount");
  LEAT_CHECK_OK(check_mount(request.mount));
  LEAT_TRY(request.store, parse_store(member(http, "store")));
  LEAT_TRY(request.age_max, parse_age(member(http, "age-ms")));
  LEAT_TRY(request.header, request_header_of(http));
  return {};
}

void put_object(FlatJsonWriter& json, const SourceObject& object) {
  json.bytes("key", object.key);
  json.text("kind", object.kind == FileKind::kFile ? kFile : kDirectory);
  if (object.kind == FileKind::kFile) json.number("size", object.size);
  if (object.version.known()) json.bytes("version", version_text(object.version));
  if (object.mtime) json.number("mtime_ns", object.mtime->time_since_epoch().count());
  if (object.attributes) json.text("attributes", attributes_text(*object.attributes));
}

// Collects the members of an object.
class ObjectReader {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) {
    if (name == "key") {
      with_key_ = true;
      return value.get(name, object_.key);
    }
    if (name == "kind") return value.get(name, kind_);
    if (name == "size") return value.get(name, object_.size);
    if (name == "mtime_ns") {
      int64_t time = 0;
      LEAT_CHECK_OK(value.get(name, time));
      object_.mtime = WallTime(std::chrono::nanoseconds(time));
    }
    if (name == "version") {
      std::string text;
      LEAT_CHECK_OK(value.get(name, text));
      LEAT_TRY(object_.version, parse_version(text));
    }
    if (name == "attributes") {
      std::string text;
      LEAT_CHECK_OK(value.get(name, text));
      LEAT_TRY(PosixAttributes attributes, parse_attributes(text));
      object_.attributes = std::make_shared<const PosixAttributes>(attributes);
    }
    return {};
  }

  // Returns nothing for an unknown kind.
  Result<std::optional<SourceObject>> finish() {
    if (kind_.empty() || !with_key_) return wrong("an object has no key or no kind");
    if (kind_ != kFile && kind_ != kDirectory) return std::nullopt;
    object_.kind = kind_ == kFile ? FileKind::kFile : FileKind::kDirectory;
    LEAT_CHECK_OK(check_key(object_.key, true));
    const bool as_directory = object_.key.ends_with('/');
    if (as_directory != (object_.kind == FileKind::kDirectory)) {
      return wrong(fmt::format("key '{}' is not that of a {}", object_.key, kind_));
    }
    return std::move(object_);
  }

 private:
  SourceObject object_;
  std::string kind_;
  bool with_key_ = false;
};

Result<> get_age(std::string_view name, const FlatJsonValue& value, milliseconds& age) {
  int64_t count = 0;
  LEAT_CHECK_OK(value.get(name, count));
  if (count < 0) return wrong("an age is negative");
  age = milliseconds(count);
  return {};
}

class ListSink : public FlatJsonSink {
 public:
  explicit ListSink(std::string_view prefix) : prefix_(prefix) {}

  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "skipped") return value.get(name, skipped_);
    if (name == "next") return value.get(name, result.page.next_token);
    if (name != "age_ms") return {};
    with_age_ = true;
    return get_age(name, value, result.age);
  }
  Result<> begin_item() override {
    if (++items_ > kListResponseObjectsMax) return wrong("there are too many objects");
    object_ = {};
    return {};
  }
  Result<> item_member(std::string_view name, const FlatJsonValue& value) override {
    return object_.member(name, value);
  }
  Result<> end_item() override {
    LEAT_TRY(auto object, object_.finish());
    if (!object) {
      ++unknown_;
      return {};
    }
    auto& objects = result.page.objects;
    if (!object->key.starts_with(prefix_) || object->key.size() == prefix_.size()) {
      return wrong(fmt::format("key '{}' is not below '{}'", object->key, prefix_));
    }
    if (!objects.empty() && objects.back().key >= object->key) {
      return wrong(fmt::format("key '{}' stands behind '{}'", object->key, objects.back().key));
    }
    objects.push_back(*std::move(object));
    return {};
  }
  Result<> finish() {
    if (!with_age_) return wrong("it has no age_ms");
    result.page.skipped = skipped_ + unknown_;
    return {};
  }

  ListResponse result;

 private:
  const std::string_view prefix_;
  ObjectReader object_;
  size_t items_ = 0;
  uint64_t skipped_ = 0, unknown_ = 0;
  bool with_age_ = false;
};

class StatSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "age_ms") return get_age(name, value, age);
    return object.member(name, value);
  }

  ObjectReader object;
  milliseconds age{0};
};

}  // namespace

HttpRequest to_http(const PeerListRequest& request) {
  HttpRequest http;
  http.path = kListPath;
  put_common_fields(request, http);
  http.query["prefix"] = request.prefix;
  if (!request.token.empty()) http.query["token"] = request.token;
  return http;
}

Result<PeerListRequest> list_request_from(const HttpRequest& http) {
  PeerListRequest request;
  LEAT_CHECK_OK(read_common_fields(http, request));
  request.prefix = member(http, "prefix");
  LEAT_CHECK_OK(check_prefix(request.prefix));
  request.token = member(http, "token");
  if (request.token.size() > kListTokenBytesMax) return wrong("the token of a page is too long");
  return request;
}

HttpRequest to_http(const PeerStatRequest& request) {
  HttpRequest http;
  http.path = kStatPath;
  put_common_fields(request, http);
  http.query["key"] = request.key;
  return http;
}

Result<PeerStatRequest> stat_request_from(const HttpRequest& http) {
  PeerStatRequest request;
  LEAT_CHECK_OK(read_common_fields(http, request));
  request.key = member(http, "key");
  LEAT_CHECK_OK(check_key(request.key, true));
  return request;
}

std::string encode_list_response(const ListResponse& page) {
  FlatJsonWriter json;
  json.reserve(256 + page.page.objects.size() * 192);
  json.number("age_ms", page.age.count());
  json.number("skipped", page.page.skipped);
  json.bytes("next", page.page.next_token);
  json.begin_list("objects");
  for (const SourceObject& object : page.page.objects) {
    json.begin_item();
    put_object(json, object);
    json.end_item();
  }
  json.end_list();
  return json.take();
}

Result<ListResponse> decode_list_response(std::string_view json, std::string_view prefix) {
  ListSink sink(prefix);
  LEAT_CHECK_OK(read_flat_json(json, "a page of names", "objects", sink));
  LEAT_CHECK_OK(sink.finish());
  return std::move(sink.result);
}

std::string encode_stat_response(const StatResponse& stat) {
  FlatJsonWriter json;
  json.number("age_ms", stat.age.count());
  put_object(json, stat.object);
  return json.take();
}

Result<StatResponse> decode_stat_response(std::string_view json) {
  StatSink sink;
  LEAT_CHECK_OK(read_flat_json(json, "what a name stands for", {}, sink));
  LEAT_TRY(auto object, sink.object.finish());
  if (!object) return wrong("an object of a kind that is not known here");
  return StatResponse{*std::move(object), sink.age};
}

}  // namespace leat
