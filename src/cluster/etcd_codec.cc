// SPDX-License-Identifier: Apache-2.0
#include "cluster/etcd_codec.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/base64.h"

namespace leat::etcd {
namespace {

using Json = nlohmann::json;

// google.rpc.Code; only the codes that are handled.
enum GrpcCode {
  kGrpcInvalidArgument = 3,
  kGrpcDeadlineExceeded = 4,
  kGrpcNotFound = 5,
  kGrpcPermissionDenied = 7,
  kGrpcResourceExhausted = 8,
  kGrpcOutOfRange = 11,
  kGrpcUnavailable = 14,
  kGrpcUnauthenticated = 16,
};

// Returns the first key after all keys that begin with `prefix`; "\0" (no end) if there is none.
std::string end_of(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return std::string(1, '\0');
  end.back() = static_cast<char>(end.back() + 1);
  return end;
}

// An empty key stands for the first key.
std::string start_of(std::string_view key) {
  return key.empty() ? std::string(1, '\0') : std::string(key);
}

Status unexpected(std::string_view body, std::string_view why) {
  return {StatusCode::kInternal,
          fmt::format("unexpected answer of etcd ({}): {}", why, body.substr(0, 300))};
}

// 0 if the field is absent.
Result<int64_t> number(const Json& object, const char* name) {
  auto found = object.find(name);
  if (found == object.end()) return 0;
  if (found->is_number_integer()) return found->get<int64_t>();
  int64_t value = 0;
  if (const auto* text = found->get_ptr<const std::string*>()) {
    const char* end = text->data() + text->size();
    const auto parsed = std::from_chars(text->data(), end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end) return value;
  }
  return error(StatusCode::kInternal, fmt::format("{} is no number", name));
}

Result<std::string> bytes(const Json& object, const char* name) {
  auto found = object.find(name);
  if (found == object.end()) return std::string();
  if (const auto* text = found->get_ptr<const std::string*>()) {
    if (auto decoded = from_base64(*text)) return std::move(*decoded);
  }
  return error(StatusCode::kInternal, fmt::format("{} is no base64", name));
}

bool flag(const Json& object, const char* name) {
  auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// Returns an empty object if there is none of that name.
const Json& member(const Json& object, const char* name) {
  static const Json kNone = Json::object();
  auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : kNone;
}

const Json& list(const Json& object, const char* name) {
  static const Json kNone = Json::array();
  auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : kNone;
}

Result<Json> parsed(std::string_view body) {
  Json document = Json::parse(body, nullptr, false);
  if (!document.is_object()) return error(unexpected(body, "no JSON object"));
  return document;
}

// Runs `read` over the document; an error includes the text.
template <class T>
Result<T> decoded(std::string_view body, Result<T> (*read)(const Json&)) {
  LEAT_TRY(const Json document, parsed(body));
  Result<T> answer = read(document);
  if (!answer) return error(unexpected(body, answer.error().message()));
  return answer;
}

Result<RegistryRevision> revision_of(const Json& answer) {
  LEAT_TRY(const int64_t revision, number(member(answer, "header"), "revision"));
  if (revision <= 0) return error(StatusCode::kInternal, "no revision");
  return revision;
}

Result<RegistryEntry> entry_of(const Json& kv) {
  RegistryEntry entry;
  LEAT_TRY(entry.key, bytes(kv, "key"));
  LEAT_TRY(entry.value, bytes(kv, "value"));
  LEAT_TRY(entry.changed, number(kv, "mod_revision"));
  LEAT_TRY(entry.created, number(kv, "create_revision"));
  LEAT_TRY(entry.version, number(kv, "version"));
  LEAT_TRY(entry.lease, number(kv, "lease"));
  return entry;
}

Result<RangeAnswer> read_range(const Json& answer) {
  RangeAnswer read;
  LEAT_TRY(read.view.revision, revision_of(answer));
  for (const Json& kv : list(answer, "kvs")) {
    if (!kv.is_object()) return error(StatusCode::kInternal, "an entry that is no object");
    LEAT_TRY(RegistryEntry entry, entry_of(kv));
    read.view.entries.push_back(std::move(entry));
  }
  read.more = flag(answer, "more");
  return read;
}

Result<CommitAnswer> read_commit(const Json& answer) {
  CommitAnswer read{.succeeded = flag(answer, "succeeded")};
  LEAT_TRY(read.revision, revision_of(answer));
  return read;
}

Result<LeaseAnswer> read_lease(const Json& answer) {
  LeaseAnswer read;
  LEAT_TRY(read.lease, number(answer, "ID"));
  LEAT_TRY(const int64_t ttl, number(answer, "TTL"));
  read.ttl = std::chrono::seconds(ttl);
  return read;
}

Result<LeaseAnswer> read_keep_alive(const Json& answer) {
  return read_lease(member(answer, "result"));
}

Result<RegistryEvent> event_of(const Json& one) {
  RegistryEvent event;
  LEAT_TRY(event.entry, entry_of(member(one, "kv")));
  auto type = one.find("type");
  if (type != one.end() && *type == "DELETE") event.kind = RegistryEvent::Kind::kRemoved;
  return event;
}

Result<WatchAnswer> read_watch(const Json& line) {
  WatchAnswer read;
  if (const Json& failed = member(line, "error"); !failed.empty()) {
    read.ended = decode_error(0, failed.dump());
    return read;
  }
  const Json& result = member(line, "result");
  LEAT_TRY(const int64_t compacted, number(result, "compact_revision"));
  if (compacted > 0) {
    read.ended = Status(StatusCode::kOutOfRange,
                        fmt::format("etcd has compacted up to revision {}", compacted));
    return read;
  }
  if (flag(result, "canceled")) {
    const std::string reason = result.value("cancel_reason", "without a reason");
    const bool refused = reason.find("permission denied") != reason.npos;
    read.ended = Status(refused ? StatusCode::kPermissionDenied : StatusCode::kUnavailable,
                        "etcd ended the watch: " + reason);
    return read;
  }
  for (const Json& one : list(result, "events")) {
    if (!one.is_object()) return error(StatusCode::kInternal, "an event that is no object");
    LEAT_TRY(RegistryEvent event, event_of(one));
    read.events.events.push_back(std::move(event));
  }
  read.fragment = flag(result, "fragment");
  read.created = flag(result, "created");
  LEAT_TRY(read.now, number(member(result, "header"), "revision"));
  // On unrequested progress notifications this revision is valid for the watch.
  if (!read.events.events.empty()) {
    read.events.revision = read.events.events.back().entry.changed;
  } else if (!read.created) {
    read.events.revision = read.now;
  }
  return read;
}

Result<std::string> read_login(const Json& answer) {
  auto token = answer.find("token");
  if (token == answer.end() || !token->is_string()) {
    return error(StatusCode::kInternal, "no token");
  }
  return token->get<std::string>();
}

// Plain-text answer of an etcd with users to a gateway request with a client certificate that has a
// common name (accessController in its embed/serve.go).
bool refuses_common_name(int http_status, std::string_view message) {
  return http_status == 400 && message.find("CommonName of client") != message.npos;
}

StatusCode code_of(int64_t grpc, int http_status, std::string_view message) {
  // Codes for disabled authentication, and for a token from before a restart.
  switch (grpc) {
    case kGrpcInvalidArgument:
      for (const char* refused : {"authentication failed", "user name is empty"}) {
        if (message.find(refused) != message.npos) return StatusCode::kPermissionDenied;
      }
      return StatusCode::kInvalidArgument;
    case kGrpcNotFound:
      return StatusCode::kNotFound;
    case kGrpcPermissionDenied:
    case kGrpcUnauthenticated:
      return StatusCode::kPermissionDenied;
    case kGrpcResourceExhausted:
      return StatusCode::kNoSpace;
    case kGrpcOutOfRange:
      return StatusCode::kOutOfRange;
    case kGrpcDeadlineExceeded:
    case kGrpcUnavailable:
      return StatusCode::kUnavailable;
    default:
      break;
  }
  if (http_status == 401 || http_status == 403) return StatusCode::kPermissionDenied;
  if (http_status == 404 || http_status == 405) return StatusCode::kUnsupported;
  return http_status >= 500 || http_status == 0 ? StatusCode::kUnavailable : StatusCode::kInternal;
}

}  // namespace

std::string range_request(std::string_view prefix, std::string_view from, RegistryRevision revision,
                          size_t entries_max) {
  Json request = {{"key", base64(start_of(from))},
                  {"range_end", base64(end_of(prefix))},
                  {"limit", std::to_string(entries_max)}};
  if (revision != 0) request["revision"] = std::to_string(revision);
  return request.dump();
}

Result<RangeAnswer> range_answer(std::string_view body) {
  return decoded(body, read_range);
}

std::string commit_request(const RegistryChange& change) {
  Json compare = Json::array();
  for (const auto& condition : change.conditions) {
    compare.push_back({{"target", "MOD"},
                       {"result", "EQUAL"},
                       {"key", base64(condition.key)},
                       {"mod_revision", std::to_string(condition.changed)}});
  }
  Json success = Json::array();
  for (const auto& put : change.puts) {
    Json one = {{"key", base64(put.key)}, {"value", base64(put.value)}};
    if (put.lease != 0) one["lease"] = std::to_string(put.lease);
    success.push_back({{"request_put", one}});
  }
  for (const std::string& key : change.removals) {
    success.push_back({{"request_delete_range", {{"key", base64(key)}}}});
  }
  return Json{{"compare", compare}, {"success", success}}.dump();
}

Result<CommitAnswer> commit_answer(std::string_view body) {
  return decoded(body, read_commit);
}

std::string grant_request(std::chrono::seconds ttl) {
  return Json{{"TTL", std::to_string(ttl.count())}}.dump();
}

Result<LeaseAnswer> grant_answer(std::string_view body) {
  return decoded(body, read_lease);
}

std::string lease_request(RegistryLease lease) {
  return Json{{"ID", std::to_string(lease)}}.dump();
}

Result<LeaseAnswer> keep_alive_answer(std::string_view body) {
  return decoded(body, read_keep_alive);
}

std::string watch_request(std::string_view prefix, RegistryRevision from) {
  return Json{{"create_request",
               {{"key", base64(start_of(prefix))},
                {"range_end", base64(end_of(prefix))},
                {"start_revision", std::to_string(from)},
                {"progress_notify", true},
                {"fragment", true}}}}
      .dump();
}

Result<WatchAnswer> watch_answer(std::string_view line) {
  return decoded(line, read_watch);
}

std::string login_request(std::string_view user, std::string_view password) {
  return Json{{"name", user}, {"password", password}}.dump();
}

Result<std::string> login_answer(std::string_view body) {
  return decoded(body, read_login);
}

Status decode_error(int http_status, std::string_view body) {
  const Json document = Json::parse(body, nullptr, false);
  std::string message;
  int64_t grpc = 0;
  if (document.is_object()) {
    // `message` since 3.4, `error` in all versions; in a stream also `grpc_code`.
    for (const char* name : {"message", "error"}) {
      auto found = document.find(name);
      if (message.empty() && found != document.end() && found->is_string()) message = *found;
    }
    for (const char* name : {"code", "grpc_code"}) {
      grpc = number(document, name).value_or(0);
      if (grpc != 0) break;
    }
  }
  if (message.empty()) message = std::string(body.substr(0, 300));
  if (refuses_common_name(http_status, message)) {
    return {
        StatusCode::kPermissionDenied,
        "etcd answered that it takes no certificate with a common name, since it has users; give "
        "the registry one whose subject has no CN"};
  }
  const StatusCode code = code_of(grpc, http_status, message);
  return {code, http_status == 0 ? fmt::format("etcd answered: {}", message)
                                 : fmt::format("etcd answered {}: {}", http_status, message)};
}

}  // namespace leat::etcd
