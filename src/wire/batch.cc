// SPDX-License-Identifier: Apache-2.0
#include "wire/batch.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "base/records.h"
#include "wire/flat_json.h"
#include "wire/peer_error.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

constexpr uint32_t kWithBytes = 206;
constexpr size_t kHeadBytes = 8;  // status and length of a part

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

// Collects the members of one record.
class RecordSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "mount") return text(name, value, mount_);
    if (name == "store") return text(name, value, store_);
    if (name == "key") return text(name, value, key_);
    if (name == "version") return text(name, value, version_);
    if (name == "size") return number(name, value, size_);
    if (name == "offset") return number(name, value, offset_);
    if (name == "bytes") return number(name, value, bytes_);
    return {};
  }

  Result<PeerReadRequest> finish() {
    if (!mount_ || !store_ || !key_ || !version_ || !size_ || !offset_ || !bytes_) {
      return wrong("a member is missing");
    }
    LEAT_CHECK_OK(check_mount(*mount_));
    LEAT_CHECK_OK(check_key(*key_, false));
    LEAT_TRY(const StoreId store, parse_store(*store_));
    LEAT_TRY(Version version, parse_version(*version_));
    const ByteRange range{*offset_, *bytes_};
    LEAT_CHECK_OK(check_range(range, *size_));
    return PeerReadRequest{*std::move(mount_),
                           FileRef::make(store, *std::move(key_), std::move(version), *size_),
                           range};
  }

 private:
  static Result<> text(std::string_view name, const FlatJsonValue& value,
                       std::optional<std::string>& out) {
    return value.get(name, out.emplace());
  }
  static Result<> number(std::string_view name, const FlatJsonValue& value,
                         std::optional<uint64_t>& out) {
    return value.get(name, out.emplace());
  }

  std::optional<std::string> mount_, store_, key_, version_;
  std::optional<uint64_t> size_, offset_, bytes_;
};

std::string encode_record(const PeerReadRequest& request) {
  FlatJsonWriter json;
  json.bytes("mount", request.mount);
  json.text("store", request.file.store.to_hex());
  json.bytes("key", request.file.key);
  json.bytes("version", version_text(request.file.version));
  json.number("size", request.file.size);
  json.number("offset", request.range.offset);
  json.number("bytes", request.range.size);
  return json.take();
}

Result<PeerReadRequest> decode_record(std::string_view json) {
  RecordSink sink;
  LEAT_CHECK_OK(read_flat_json(json, "its JSON", {}, sink));
  return sink.finish();
}

struct PartHead {
  uint32_t status = 0, size = 0;
};

PartHead head_at(const Bytes& body, size_t offset) {
  std::array<std::byte, kHeadBytes> raw;
  body.sub(offset, raw.size()).copy_to(raw);
  RecordReader reader(raw);
  PartHead head;
  head.status = reader.get<uint32_t>();
  head.size = reader.get<uint32_t>();
  return head;
}

uint32_t part_status(const Status& status, bool only_if_cached) {
  const bool not_cached = only_if_cached && status.code() == StatusCode::kNotFound;
  return static_cast<uint32_t>(not_cached ? kHttpNotCached : peer_error_http(status.code()));
}

// Encoded part headers and errors of an answer, and the end of each part in `text`.
struct Frames {
  RecordWriter text;
  std::vector<size_t> ends;
};

Frames frames_of(const BatchAnswer& answer, bool only_if_cached) {
  Frames frames;
  for (const auto& part : answer) {
    const std::string reason = part ? std::string() : encode_peer_error(part.error());
    frames.text.put(part ? kWithBytes : part_status(part.error(), only_if_cached));
    frames.text.put(static_cast<uint32_t>(part ? part->size() : reason.size()));
    frames.text.put_text(reason);
    frames.ends.push_back(frames.text.size());
  }
  return frames;
}

}  // namespace

Result<> check_batch(std::span<const PeerReadRequest> requests) {
  if (requests.empty() || requests.size() > kBatchRecordsMax) {
    return wrong(fmt::format("a batch has 1 to {} records, and this one {}", kBatchRecordsMax,
                             requests.size()));
  }
  uint64_t bytes = 0;
  for (const PeerReadRequest& request : requests) bytes += request.range.size;
  if (bytes <= kBatchBytesMax) return {};
  return wrong(fmt::format("a batch requests {} at most, and this one {}",
                           format_bytes(kBatchBytesMax), format_bytes(bytes)));
}

std::string encode_batch(std::span<const PeerReadRequest> requests) {
  RecordWriter body;
  for (const PeerReadRequest& request : requests) {
    const std::string json = encode_record(request);
    body.put(static_cast<uint32_t>(json.size()));
    body.put_text(json);
  }
  return body.take();
}

Result<std::vector<PeerReadRequest>> decode_batch(std::string_view body) {
  std::vector<PeerReadRequest> requests;
  while (!body.empty()) {
    auto refuse = [&](const std::string& reason) {
      return wrong(fmt::format("record {} of the batch: {}", requests.size() + 1, reason));
    };
    if (requests.size() == kBatchRecordsMax) return refuse("there are too many");
    uint32_t size = 0;
    if (body.size() < sizeof size) return refuse("it is cut off");
    std::memcpy(&size, body.data(), sizeof size);
    body.remove_prefix(sizeof size);
    if (size > kBatchRecordBytesMax) return refuse("it is too long");
    if (size > body.size()) return refuse("it is cut off");
    auto request = decode_record(body.substr(0, size));
    if (!request) return refuse(request.error().to_string());
    body.remove_prefix(size);
    requests.push_back(*std::move(request));
  }
  LEAT_CHECK_OK(check_batch(requests));
  return requests;
}

Bytes encode_batch_answer(const BatchAnswer& answer, bool only_if_cached) {
  Frames frames = frames_of(answer, only_if_cached);
  const auto text = std::make_shared<const std::string>(frames.text.take());
  const auto* at = reinterpret_cast<const std::byte*>(text->data());
  Bytes body;
  size_t from = 0;
  for (size_t i = 0; i < answer.size(); ++i) {
    body.append(Slice{text, at + from, frames.ends[i] - from});
    from = frames.ends[i];
    if (answer[i]) body.append(*answer[i]);
  }
  return body;
}

Result<BatchAnswer> decode_batch_answer(const Bytes& body,
                                        std::span<const PeerReadRequest> requests) {
  BatchAnswer answer;
  size_t at = 0;
  for (const PeerReadRequest& request : requests) {
    if (body.size() - at < kHeadBytes) return wrong("the answer to a batch is cut off");
    const PartHead head = head_at(body, at);
    at += kHeadBytes;
    if (head.size > body.size() - at) return wrong("the answer to a batch is cut off");
    Bytes part = body.sub(at, head.size);
    at += head.size;
    if (head.status == kWithBytes) {
      if (head.size != request.range.size) {
        return wrong(fmt::format("the answer to a batch has {} bytes of '{}' for {}", head.size,
                                 request.file.key, request.range.size));
      }
      answer.emplace_back(std::move(part));
    } else {
      answer.push_back(
          error(decode_peer_error(static_cast<int>(head.status & 0xffff), part.to_string())));
    }
  }
  if (at != body.size()) return wrong("the answer to a batch has more than was requested");
  return answer;
}

}  // namespace leat
