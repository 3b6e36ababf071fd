// SPDX-License-Identifier: Apache-2.0
#include "wire/write_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/crc32c.h"
#include "wire/flat_json.h"
#include "wire/name_messages.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

constexpr std::array<std::string_view, 5> kOps = {"copy", "rename", "remove", "set-attributes",
                                                  "flush"};
constexpr std::array<std::string_view, 3> kSteps = {"append", "complete", "abort"};
constexpr std::string_view kNoObject = "{}";

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

std::string_view member(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? std::string_view() : found->second;
}

template <class T, size_t N>
Result<T> value_in(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto* found = std::ranges::find(names, name);
  if (found == names.end()) return wrong(fmt::format("'{}' is no change of a store", name));
  return static_cast<T>(found - names.begin());
}

template <class Request>
void put_common_fields(const Request& request, HttpRequest& http) {
  http.method = "POST";
  http.query["mount"] = request.mount;
  http.query["store"] = request.store.to_hex();
  if (!request.attributes.empty()) http.query["attributes"] = attributes_text(request.attributes);
}

template <class Request>
Result<> read_common_fields(const HttpRequest& http, Request& request) {
  request.mount = member(http, "mount");
  LEAT_CHECK_OK(check_mount(request.mount));
  LEAT_TRY(request.store, parse_store(member(http, "store")));
  LEAT_TRY(request.attributes, parse_attributes(member(http, "attributes")));
  return {};
}

std::string crc_text(std::string_view body) {
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(body))));
}

Result<WritePiece> piece_from(const HttpRequest& http) {
  WritePiece piece;
  const auto id = Id128::from_hex(member(http, "write"));
  const auto offset = parse_decimal<uint64_t>(member(http, "offset"));
  if (!id || !offset) return wrong("a piece of a write has no id or no offset");
  piece.write = *id;
  piece.offset = *offset;
  if (piece.offset > INT64_MAX) return wrong("a piece is beyond the end of any object");
  LEAT_TRY(piece.step, (value_in<WritePiece::Step>(kSteps, member(http, "step"))));
  return piece;
}

class ChangeSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "exclusive") return value.get(name, exclusive);
    return {};
  }
  Result<> begin_item() override {
    if (keys.size() == kChangeKeysMax) return wrong("a change has too many keys");
    keys.emplace_back();
    return {};
  }
  Result<> item_member(std::string_view name, const FlatJsonValue& value) override {
    return name == "key" ? value.get(name, keys.back()) : Result<>();
  }
  Result<> end_item() override { return check_key(keys.back(), true); }

  uint64_t exclusive = 0;
  std::vector<std::string> keys;
};

}  // namespace

std::string_view to_string(ChangeOp op) {
  return kOps[static_cast<size_t>(op)];
}

HttpRequest to_http(const PeerWrite& request, std::span<const std::byte> content) {
  HttpRequest http;
  put_common_fields(request, http);
  http.path = kWritePath;
  http.query["key"] = request.key;
  if (request.condition.absent) http.query["absent"] = "1";
  if (request.condition.version.known()) {
    http.query["version"] = version_text(request.condition.version);
  }
  if (request.piece) {
    http.query["write"] = request.piece->write.to_hex();
    http.query["offset"] = fmt::format_int(request.piece->offset).str();
    http.query["step"] = kSteps[static_cast<size_t>(request.piece->step)];
  }
  http.body.assign(reinterpret_cast<const char*>(content.data()), content.size());
  http.query["crc32c"] = crc_text(http.body);
  return http;
}

Result<PeerWrite> write_from(const HttpRequest& http) {
  PeerWrite request;
  LEAT_CHECK_OK(read_common_fields(http, request));
  request.key = member(http, "key");
  LEAT_CHECK_OK(check_key(request.key, true));
  request.condition.absent = !member(http, "absent").empty();
  if (const std::string_view version = member(http, "version"); !version.empty()) {
    LEAT_TRY(request.condition.version, parse_version(version));
  }
  if (request.condition.absent && request.condition.version.known()) {
    return wrong("a write demands a version and that there is none");
  }
  if (http.query.contains("write")) {
    LEAT_TRY(request.piece, piece_from(http));
  }
  const bool has_content = !request.key.ends_with('/') &&
                           (!request.piece || request.piece->step != WritePiece::Step::kAbort);
  if (http.body.size() > (has_content ? kWriteBytesMax : 0)) {
    return wrong(fmt::format("a write of '{}' has {} bytes, which are too many for one request",
                             request.key, http.body.size()));
  }
  if (request.piece && request.key.ends_with('/')) return wrong("a directory has no content");
  if (crc_text(http.body) != member(http, "crc32c")) {
    return error(StatusCode::kCorrupt,
                 fmt::format("the content of '{}' arrived with a wrong checksum", request.key));
  }
  return request;
}

HttpRequest to_http(const PeerChange& request) {
  HttpRequest http;
  put_common_fields(request, http);
  http.path = kChangePath;
  http.query["do"] = to_string(request.op);
  FlatJsonWriter json;
  if (request.exclusive) json.number("exclusive", 1U);
  json.begin_list("keys");
  for (const std::string& key : request.keys) {
    json.begin_item();
    json.bytes("key", key);
    json.end_item();
  }
  json.end_list();
  http.body = json.take();
  return http;
}

Result<PeerChange> change_from(const HttpRequest& http) {
  PeerChange request;
  LEAT_CHECK_OK(read_common_fields(http, request));
  LEAT_TRY(request.op, (value_in<ChangeOp>(kOps, member(http, "do"))));
  ChangeSink sink;
  LEAT_CHECK_OK(read_flat_json(http.body, "a change", "keys", sink));
  request.exclusive = sink.exclusive != 0;
  request.keys = std::move(sink.keys);
  const size_t count = request.keys.size();
  const bool moves = request.op == ChangeOp::kCopy || request.op == ChangeOp::kRename;
  const bool right = moves                                    ? count == 2
                     : request.op == ChangeOp::kSetAttributes ? count == 1
                     : request.op == ChangeOp::kFlush         ? count <= 1
                                                              : count > 0;
  if (!right) return wrong(fmt::format("a {} has {} keys", to_string(request.op), count));
  return request;
}

std::string encode_change_answer(const SourceObject& object) {
  if (object.key.empty()) return std::string(kNoObject);
  return encode_stat_response({.object = object});
}

Result<SourceObject> decode_change_answer(std::string_view json) {
  if (json == kNoObject) return SourceObject();
  LEAT_TRY(StatResponse stat, decode_stat_response(json));
  return std::move(stat.object);
}

}  // namespace leat
