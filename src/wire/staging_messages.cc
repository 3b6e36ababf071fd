// SPDX-License-Identifier: Apache-2.0
#include "wire/staging_messages.h"

#include <fmt/format.h>

#include <array>

#include "base/crc32c.h"
#include "cluster/record_text.h"
#include "http/json_fields.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

constexpr std::array<const char*, 4> kKinds = {"save", "mkdir", "remove", "rename"};
constexpr std::array<const char*, 3> kEventKinds = {"append", "copied", "done"};
constexpr std::string_view kVersionPrefix = "\"leat-";

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string member(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

template <class T>
Result<T> number_in(const HttpRequest& request, const std::string& name) {
  const auto number = parse_decimal<T>(member(request, name));
  if (!number) return wrong(fmt::format("the request's '{}' is no number", name));
  return *number;
}

Result<Id128> id_from(std::string_view text) {
  const auto id = Id128::from_hex(text);
  if (!id) return wrong(fmt::format("'{}' is no id", text));
  return *id;
}

template <class T, size_t N>
Result<T> value_in(const std::array<const char*, N>& names, const std::string& name) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<T>(i);
  }
  return wrong(fmt::format("'{}' is no staged change of a kind that is known here", name));
}

Json json_of(const StagedChange& change) {
  Json json = {{"kind", kKinds[static_cast<size_t>(change.kind)]},
               {"since_ns", change.since.time_since_epoch().count()},
               {"copies", change.copies}};
  put_bytes(json, "key", change.key);
  if (!change.from.empty()) put_bytes(json, "from", change.from);
  if (change.exclusive) json["exclusive"] = true;
  if (!change.content.is_zero()) {
    json["content"] = change.content.to_hex();
    json["size"] = change.size;
    json["crc"] = change.crc;
    for (const WorkerId& one : change.holders) json["holders"].push_back(one.to_hex());
  }
  if (!change.attributes.empty()) json["attributes"] = attributes_text(change.attributes);
  if (change.condition.absent) json["absent"] = true;
  if (change.condition.version.known()) {
    put_bytes(json, "version", version_text(change.condition.version));
  }
  return json;
}

Result<StagedChange> change_of(const Json& json) {
  StagedChange change;
  LEAT_TRY(change.kind, (value_in<StagedKind>(kKinds, json.at("kind").get<std::string>())));
  require_bytes(json, "key", change.key);
  LEAT_CHECK_OK(check_key(change.key, true));
  get_bytes(json, "from", change.from);
  if ((change.kind == StagedKind::kRename) == change.from.empty()) {
    return wrong("a rename has no former name, or another change has one");
  }
  if (!change.from.empty()) LEAT_CHECK_OK(check_key(change.from, true));
  get(json, "exclusive", change.exclusive);
  if (json.contains("content")) {
    LEAT_TRY(change.content, id_from(json.at("content").get<std::string>()));
    change.size = json.at("size").get<uint64_t>();
    change.crc = json.at("crc").get<uint32_t>();
    for (const Json& one : json.value("holders", Json::array())) {
      LEAT_TRY(const Id128 holder, id_from(one.get<std::string>()));
      change.holders.emplace_back(holder);
    }
  }
  std::string text;
  get(json, "attributes", text);
  LEAT_TRY(change.attributes, parse_attributes(text));
  get(json, "absent", change.condition.absent);
  text.clear();
  get_bytes(json, "version", text);
  if (!text.empty()) {
    LEAT_TRY(change.condition.version, parse_version(text));
  }
  int64_t since = 0;
  get(json, "since_ns", since);
  change.since = WallTime(std::chrono::nanoseconds(since));
  get(json, "copies", change.copies);
  if (change.copies == 0 || change.copies > kStagedCopiesMax) {
    return wrong("a change has too many copies, or none");
  }
  return change;
}

Json json_of(const StagedEvent& event) {
  Json json = {{"event", kEventKinds[static_cast<size_t>(event.kind)]},
               {"position", event.position},
               {"number", event.number}};
  if (event.kind == StagedEvent::Kind::kAppend) json["change"] = json_of(event.change);
  if (event.version.known()) put_bytes(json, "version", version_text(event.version));
  return json;
}

Result<StagedEvent> event_of(const Json& json) {
  StagedEvent event;
  LEAT_TRY(event.kind,
           (value_in<StagedEvent::Kind>(kEventKinds, json.at("event").get<std::string>())));
  event.position = json.at("position").get<uint64_t>();
  event.number = json.at("number").get<uint64_t>();
  if (event.kind == StagedEvent::Kind::kAppend) {
    LEAT_TRY(event.change, change_of(json.at("change")));
  }
  std::string version;
  get_bytes(json, "version", version);
  if (!version.empty()) {
    LEAT_TRY(event.version, parse_version(version));
  }
  return event;
}

// A body in JSON, with the mount and the store in the query.
HttpRequest post(const char* path, const std::string& mount, const StoreId& store,
                 std::string body) {
  HttpRequest http{.method = "POST", .path = path};
  http.query["mount"] = mount;
  http.query["store"] = store.to_hex();
  http.body = std::move(body);
  return http;
}

template <class Request>
Result<Request> posted(const HttpRequest& http) {
  Request request;
  request.mount = member(http, "mount");
  LEAT_CHECK_OK(check_mount(request.mount));
  LEAT_TRY(request.store, parse_store(member(http, "store")));
  return request;
}

std::string crc_text(std::string_view bytes) {
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(bytes))));
}

}  // namespace

std::string encode_staged_change(const StagedChange& change) {
  return text_of(json_of(change));
}

Result<StagedChange> decode_staged_change(std::string_view text) {
  return read_record<StagedChange>(text, "a staged change", change_of);
}

std::vector<StagedEvents> parts_of(StagedEvents whole) {
  std::vector<StagedEvents> parts;
  size_t next = 0;
  do {
    StagedEvents part{.log = whole.log, .term = whole.term};
    part.is_whole = parts.empty();
    part.is_part = !parts.empty();
    for (; next < whole.events.size() && part.events.size() < kStagedPartEvents; ++next) {
      part.events.push_back(std::move(whole.events[next]));
    }
    parts.push_back(std::move(part));
  } while (next < whole.events.size());
  parts.back().position = whole.position;
  return parts;
}

std::string encode_staged_events(const StagedEvents& events) {
  Json json = {{"log", events.log.to_hex()},  {"term", events.term},
               {"position", events.position}, {"whole", events.is_whole},
               {"part", events.is_part},      {"events", Json::array()}};
  for (const StagedEvent& one : events.events) json["events"].push_back(json_of(one));
  return text_of(json);
}

Result<StagedEvents> decode_staged_events(std::string_view text) {
  return read_record<StagedEvents>(
      text, "the events of a staging log", [](const Json& json) -> Result<StagedEvents> {
        StagedEvents events;
        LEAT_TRY(events.log, id_from(json.at("log").get<std::string>()));
        events.term = json.at("term").get<uint64_t>();
        events.position = json.at("position").get<uint64_t>();
        get(json, "whole", events.is_whole);
        get(json, "part", events.is_part);
        for (const Json& one : json.at("events")) {
          if (events.events.size() == kStagedEventsMax) return wrong("there are too many events");
          LEAT_TRY(StagedEvent event, event_of(one));
          events.events.push_back(std::move(event));
        }
        return events;
      });
}

Version staged_version(const Id128& log, uint64_t number) {
  return Version::etag(fmt::format("{}{}-{}\"", kVersionPrefix, log.to_hex(), number));
}

bool is_staged_version(const Version& version) {
  return version.kind == Version::Kind::kEtag && version.value.starts_with(kVersionPrefix);
}

std::optional<uint64_t> staged_number(const Id128& log, const Version& version) {
  if (!is_staged_version(version)) return std::nullopt;
  std::string_view rest = std::string_view(version.value).substr(kVersionPrefix.size());
  const std::string id = log.to_hex() + "-";
  if (!rest.starts_with(id) || !rest.ends_with('"')) return std::nullopt;
  rest.remove_prefix(id.size());
  rest.remove_suffix(1);
  return parse_decimal<uint64_t>(rest);
}

HttpRequest to_http(const StagedAppend& request) {
  HttpRequest http =
      post(kStagedAppendPath, request.mount, request.store, encode_staged_change(request.change));
  if (request.until_sent) http.query["until_sent"] = "1";
  return http;
}

Result<StagedAppend> staged_append_from(const HttpRequest& http) {
  LEAT_TRY(StagedAppend request, posted<StagedAppend>(http));
  request.until_sent = !member(http, "until_sent").empty();
  LEAT_TRY(request.change, decode_staged_change(http.body));
  return request;
}

HttpRequest to_http(const StagedSend& request) {
  return post(kStagedSendPath, request.mount, request.store, encode_staged_change(request.change));
}

Result<StagedSend> staged_send_from(const HttpRequest& http) {
  LEAT_TRY(StagedSend request, posted<StagedSend>(http));
  LEAT_TRY(request.change, decode_staged_change(http.body));
  return request;
}

HttpRequest to_http(const StagedReplicate& request) {
  return post(kStagedReplicatePath, request.mount, request.store,
              encode_staged_events(request.events));
}

Result<StagedReplicate> staged_replicate_from(const HttpRequest& http) {
  LEAT_TRY(StagedReplicate request, posted<StagedReplicate>(http));
  LEAT_TRY(request.events, decode_staged_events(http.body));
  return request;
}

HttpRequest to_http(const StagedEventsRequest& request) {
  HttpRequest http{.path = kStagedEventsPath};
  http.query["mount"] = request.mount;
  http.query["log"] = request.log.to_hex();
  http.query["after"] = fmt::format_int(request.after).str();
  return http;
}

Result<StagedEventsRequest> staged_events_request_from(const HttpRequest& http) {
  StagedEventsRequest request{.mount = member(http, "mount")};
  LEAT_CHECK_OK(check_mount(request.mount));
  LEAT_TRY(request.log, id_from(member(http, "log")));
  LEAT_TRY(request.after, number_in<uint64_t>(http, "after"));
  return request;
}

HttpRequest to_http(const StagedPiece& piece, std::span<const std::byte> bytes) {
  HttpRequest http{.method = "POST", .path = kStagedContentPath};
  http.query["id"] = piece.content.to_hex();
  http.query["offset"] = fmt::format_int(piece.offset).str();
  if (piece.is_last) http.query["last"] = "1";
  http.body.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  http.query["crc32c"] = crc_text(http.body);
  return http;
}

Result<StagedPiece> staged_piece_from(const HttpRequest& http) {
  StagedPiece piece;
  LEAT_TRY(piece.content, id_from(member(http, "id")));
  LEAT_TRY(piece.offset, number_in<uint64_t>(http, "offset"));
  if (piece.offset > INT64_MAX) return wrong("a piece is beyond the end of any object");
  piece.is_last = !member(http, "last").empty();
  if (http.body.size() > kStagedPieceBytesMax) return wrong("a piece of a content is too large");
  if (crc_text(http.body) != member(http, "crc32c")) {
    return error(StatusCode::kCorrupt, "a piece of a content arrived with a wrong checksum");
  }
  return piece;
}

HttpRequest to_http(const StagedWait& request) {
  HttpRequest http{.method = "POST", .path = kStagedWaitPath};
  http.query["mount"] = request.mount;
  if (!request.key.empty()) http.query["key"] = request.key;
  http.query["number"] = fmt::format_int(request.number).str();
  return http;
}

Result<StagedWait> staged_wait_from(const HttpRequest& http) {
  StagedWait request{.mount = member(http, "mount"), .key = member(http, "key")};
  LEAT_CHECK_OK(check_mount(request.mount));
  if (!request.key.empty()) LEAT_CHECK_OK(check_key(request.key, true));
  LEAT_TRY(request.number, number_in<uint64_t>(http, "number"));
  return request;
}

}  // namespace leat
