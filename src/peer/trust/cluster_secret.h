// SPDX-License-Identifier: Apache-2.0
// SecretSet: the cluster's secrets, of which tokens are made. SecretFile: the file that holds them,
// one a line, base64url of 32 bytes or more, '#' for comments. The first signs, all of them are
// believed, so that secrets can be exchanged one host after another. Never printed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "peer/trust/hmac.h"

namespace leat {

inline constexpr size_t kSecretBytesMin = 32;
inline constexpr size_t kSecretsMax = 16;  // of a file; each one costs a stranger's request a HMAC

// What tokens are signed with.
using Secret = HmacKey;

// At least one; immutable.
struct SecretSet {
  std::vector<Secret> secrets;

  const Secret& signing() const { return secrets.front(); }
  // What a file holds. kInvalidArgument says which line is wrong, and not what stands there.
  static Result<SecretSet> parse(std::string_view text, std::string_view where);
};
using SecretSetPtr = std::shared_ptr<const SecretSet>;

// The text of a new file, with one secret from the kernel's random generator.
std::string make_secret();

// A small file, read whole, that nobody but its owner may read. Blocks. kNotFound and
// kPermissionDenied say what to do; `what` names it.
Result<std::string> read_secret_file(const std::string& path, const char* what);

// Thread-safe. Both calls that look at the file block.
class SecretFile {
 public:
  static Result<std::unique_ptr<SecretFile>> open(std::string path);

  SecretSetPtr current() const;
  // Reads the file again if it is another one than before, by time, size and inode: true where it
  // was. After an error what was there before stays.
  Result<bool> reload();

 private:
  struct Stamp {
    int64_t mtime_ns = 0;
    uint64_t size = 0, inode = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  explicit SecretFile(std::string path) : path_(std::move(path)) {}
  Result<Stamp> stamp() const;

  const std::string path_;
  mutable std::mutex mutex_;  // leaf; not held while the file is read
  Stamp seen_;
  SecretSetPtr current_;
};

}  // namespace leat
