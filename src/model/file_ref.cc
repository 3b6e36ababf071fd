// SPDX-License-Identifier: Apache-2.0
#include "model/file_ref.h"

#include <array>

namespace leat {

StoreId make_store_id(std::string_view scheme, std::string_view endpoint, std::string_view account,
                      std::string_view bucket, std::string_view salt) {
  std::array parts = {std::string_view("leat-store-1"), scheme, endpoint, account, bucket, salt};
  return StoreId(Id128::digest(parts));
}

FileRef FileRef::make(StoreId store, std::string key, Version version, uint64_t size,
                      CacheUse cache, PoolId pool) {
  const char kind = static_cast<char>(version.kind);
  std::array<char, 8> size_bytes;
  for (size_t i = 0; i < 8; ++i) size_bytes[i] = static_cast<char>(size >> (8 * i));
  std::array parts = {
      std::string_view("leat-file-1"),
      std::string_view(reinterpret_cast<const char*>(store.bytes.data()), store.bytes.size()),
      std::string_view(key),
      std::string_view(&kind, 1),
      std::string_view(version.value),
      std::string_view(size_bytes.data(), size_bytes.size()),
  };
  FileId id(Id128::digest(parts));
  return {store, std::move(key), std::move(version), size, id, cache, pool};
}

}  // namespace leat
