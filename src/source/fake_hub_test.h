// SPDX-License-Identifier: Apache-2.0
// FakeHub: an own Hugging Face Hub (fake_hub_test.py) on loopback for the life of the object. No
// real server is available, so it follows the documentation.
#pragma once

#include <memory>
#include <string>

#include "runtime/server_process_test.h"
#include "source/stores/opendal_source.h"

namespace leat::testing {

class FakeHub {
 public:
  // A public repository.
  static constexpr char kRepo[] = "some/dataset";
  // The token that private repositories require.
  static constexpr char kToken[] = "hf_t0ken";
  static constexpr char kHowToGetIt[] = "python3 is not there, or the hub did not start";

  static std::shared_ptr<FakeHub> start() {
    auto hub = std::shared_ptr<FakeHub>(new FakeHub());
    return hub->process_.launch({find_program("LEAT_PYTHON", "bin/python3"),
                                 LEAT_SOURCE_TEST_DIR "/fake_hub_test.py",
                                 std::to_string(hub->process_.port()), kToken})
               ? hub
               : nullptr;
  }

  std::string endpoint() const { return process_.endpoint(); }

  // Configuration of its datasets, without credentials; a commit is visible at once.
  OpendalConfig config() const {
    OpendalConfig config;
    config.scheme = "hf";
    config.bucket = "datasets";
    config.endpoint = endpoint();
    config.options = {{"anonymous", "true"}, {"commit_lasts_ms", "0"}};
    return config;
  }

  // Commits a file of a dataset: "OWNER/NAME/PATH".
  void put(const std::string& key, std::string_view content) const {
    curl({"-X", "PUT", "--data-binary", "@" + process_.upload(content),
          endpoint() + "/datasets/" + percent_encoded(key)});
  }

  // Log of its requests: "METHOD PATH AUTHORIZATION", one per line; those to its other port have
  // "CDN".
  std::string log() const { return curl({endpoint() + "/log"}); }
  // Rejects the redirect URLs that it has sent so far.
  void forget_locations() const { curl({endpoint() + "/forget"}); }

 private:
  ServerProcess process_{"hub"};
};

}  // namespace leat::testing
