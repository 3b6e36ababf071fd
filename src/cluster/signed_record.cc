// SPDX-License-Identifier: Apache-2.0
#include "cluster/signed_record.h"

#include <fmt/format.h>

#include "base/check.h"

namespace leat {
namespace {

constexpr std::string_view kMark = "leat-record-1 ";

// Length prefixes make the text unique, because the fields may hold any byte.
std::string signed_text(const RecordPosition& position, std::string_view value) {
  return fmt::format("{}{}:{} {}:{} {} {}\n{}", kMark, position.cluster.size(), position.cluster,
                     position.key.size(), position.key, position.created, position.version, value);
}

struct Parts {
  RecordSignature signature;
  std::string_view value;
};

std::expected<Parts, RecordFault> parse(std::string_view text) {
  if (text.empty()) return std::unexpected(RecordFault::kReserved);
  if (!text.starts_with(kMark)) return std::unexpected(RecordFault::kUnsigned);
  text.remove_prefix(kMark.size());
  const size_t end = text.find('\n');
  const std::string_view words = text.substr(0, end);
  const size_t blank = words.find(' ');
  if (end == text.npos || blank == words.npos) return std::unexpected(RecordFault::kForged);
  return Parts{{std::string(words.substr(0, blank)), std::string(words.substr(blank + 1))},
               text.substr(end + 1)};
}

}  // namespace

std::string sign_record(const RecordSigner& signer, const RecordPosition& position,
                        std::string_view value) {
  const RecordSignature signature = signer.sign(signed_text(position, value));
  std::string text = fmt::format("{}{} {}\n", kMark, signature.key_id, signature.mac);
  LEAT_CHECK(text.size() <= kRecordHeaderBytesMax);
  return text.append(value);
}

std::string_view to_string(RecordFault fault) {
  switch (fault) {
    case RecordFault::kReserved:
      return "it has no value yet";
    case RecordFault::kUnsigned:
      return "it has no signature: an earlier Leat or a stranger wrote it";
    case RecordFault::kUnknownKey:
      return "it is signed with a secret that this worker does not have";
    case RecordFault::kForged:
      return "its signature does not fit: it was altered, moved or put back";
  }
  return "";
}

std::expected<VerifiedRecord, RecordFault> verify_record(const RecordSigner& signer,
                                                         std::string_view cluster,
                                                         const RegistryEntry& entry) {
  const auto parts = parse(entry.value);
  if (!parts) return std::unexpected(parts.error());
  const RecordPosition position{cluster, entry.key, entry.created, entry.version};
  switch (signer.verify(signed_text(position, parts->value), parts->signature)) {
    case RecordSigner::Verdict::kUnknownKey:
      return std::unexpected(RecordFault::kUnknownKey);
    case RecordSigner::Verdict::kInvalid:
      return std::unexpected(RecordFault::kForged);
    case RecordSigner::Verdict::kValid:
      break;
  }
  return VerifiedRecord{std::string(parts->value), parts->signature.key_id};
}

}  // namespace leat
