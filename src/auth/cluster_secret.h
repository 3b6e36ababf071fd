// SPDX-License-Identifier: Apache-2.0
// SecretSet: the cluster's secrets, from which token keys are derived. SecretFile: the file that
// holds them, one a line, base64url of 32 bytes or more, '#' for comments. The first secret signs,
// all of them verify, so that secrets can be rotated host by host. Never printed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "auth/hmac.h"
#include "base/status.h"

namespace leat {

inline constexpr size_t kSecretBytesMin = 32;
// of a file; each costs a request with an unknown token one HMAC
inline constexpr size_t kSecretsMax = 16;

// Key that signs tokens.
using Secret = HmacKey;

// At least one; immutable.
struct SecretSet {
  std::vector<Secret> secrets;

  const Secret& signing() const { return secrets.front(); }
  // Parses a file. kInvalidArgument names the line but not its content.
  static Result<SecretSet> parse(std::string_view text, std::string_view where);
};
using SecretSetPtr = std::shared_ptr<const SecretSet>;

// Returns the text of a new file with one secret from the kernel's random generator.
std::string make_secret();

// Reads a small file that only its owner may read. Blocks. kNotFound and kPermissionDenied say what
// to do; `what` names the file.
Result<std::string> read_secret_file(const std::string& path, const char* what);

// Thread-safe. open() and reload() block.
class SecretFile {
 public:
  static Result<std::unique_ptr<SecretFile>> open(std::string path);

  SecretSetPtr current() const;
  // Reads the file again if its time, size or inode changed; returns true if it did. After an error
  // the previous secrets stay.
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
