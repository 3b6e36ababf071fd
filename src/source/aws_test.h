// SPDX-License-Identifier: Apache-2.0
// AwsTest: a fixture that owns the variables of AWS and the files of its tools, with a store that
// follows scripts.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "source/signature_test.h"
#include "source/store_reader_test.h"

namespace leat::testing {

constexpr uint64_t kSize = 16;  // of what these tests read

class AwsTest : public ::testing::Test {
 protected:
  AwsTest() {
    for (char** one = environ; *one != nullptr; ++one) {
      std::string_view text(*one);
      if (text.starts_with("AWS_")) kept_.emplace_back(text);
    }
    for (const std::string& text : kept_) {
      if (!text.starts_with("AWS_CA_BUNDLE=")) unsetenv(text.substr(0, text.find('=')).c_str());
    }
    std::filesystem::create_directories(folder_);
    set("AWS_EC2_METADATA_DISABLED", "true");
    set("AWS_SHARED_CREDENTIALS_FILE", folder_ / "credentials");
    set("AWS_CONFIG_FILE", folder_ / "config");
    reader_.config.options.erase("anonymous");
  }
  ~AwsTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
    for (const std::string& text : kept_) {
      size_t equals = text.find('=');
      setenv(text.substr(0, equals).c_str(), text.substr(equals + 1).c_str(), 1);
    }
    std::filesystem::remove_all(folder_);
  }

  // Valid until the test's end.
  void set(const char* name, const std::string& value) {
    if (const char* before = std::getenv(name); before != nullptr && !set_.contains(name)) {
      kept_.push_back(fmt::format("{}={}", name, before));
    }
    setenv(name, value.c_str(), 1);
    set_.emplace(name);
  }
  void set_keys(const std::string& token = "") {
    set("AWS_ACCESS_KEY_ID", "AKIDENV");
    set("AWS_SECRET_ACCESS_KEY", "s3cretOfTheEnvironment");
    if (!token.empty()) set("AWS_SESSION_TOKEN", token);
  }
  // Replaces the file atomically, as tools do.
  void write_file(const std::string& id, const std::string& profile = "default") {
    std::ofstream(folder_ / "new") << fmt::format(
        "[{}]\naws_access_key_id = {}\naws_secret_access_key = s3cretOf{}\n", profile, id, id);
    std::filesystem::rename(folder_ / "new", folder_ / "credentials");
  }
  // Serves requests with credential `id`, and rejects all others.
  LyingServer::Script serve_only(const std::string& id) {
    return [id](const LyingServer::Exchange& exchange) {
      bool known = key_id(exchange.request) == id;
      exchange.send(known ? lawful(0, kSize) : refusal("403 Forbidden", "InvalidAccessKeyId"));
      exchange.keep();
    };
  }

  const std::filesystem::path folder_ =
      fmt::format("{}leat_credentials_{}", ::testing::TempDir(), getpid());
  std::vector<std::string> kept_;
  std::set<std::string> set_;
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

}  // namespace leat::testing
