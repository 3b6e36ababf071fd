// SPDX-License-Identifier: Apache-2.0
// AzuriteServer: a real Azure Blob server (azurite) on loopback for the life of the object.
#pragma once

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <memory>
#include <string>

#include "runtime/server_process_test.h"

namespace leat::testing {

class AzuriteServer {
 public:
  // The public account of Azurite's documentation.
  static constexpr char kAccount[] = "devstoreaccount1";
  static constexpr char kKey[] =
      "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
  static constexpr char kContainer[] = "bucket";
  static constexpr char kHowToGetIt[] = "azurite or node is not installed; run tools/setup test";

  // Has one empty container, "bucket". Returns null if the server does not start.
  static std::shared_ptr<AzuriteServer> start() {
    auto server = std::shared_ptr<AzuriteServer>(new AzuriteServer());
    return server->launch() ? server : nullptr;
  }

  // Configuration with the account, as Azure's clients need it for a server other than Azure.
  std::string endpoint() const { return process_.endpoint() + "/" + kAccount; }

  // Stores an object by curl; fails the test if the server rejects it.
  void put(const std::string& key, std::string_view content) const {
    curl({"-T", process_.upload(content), "-H", "x-ms-blob-type: BlockBlob", signed_url(key)});
  }

  // URL with which any client may read and write that object.
  std::string signed_url(const std::string& key) const {
    return endpoint() + "/" + kContainer + "/" + percent_encoded(key) + "?" + signature();
  }

 private:
  bool launch() {
    std::string node = find_program("LEAT_NODE", "bin/node");
    std::string server = LEAT_DEPS_DIR "/azurite/node_modules/azurite/dist/src/blob/main.js";
    if (node.empty() || access(server.c_str(), R_OK) != 0) return false;
    if (!process_.launch({node, server, "--blobHost", "127.0.0.1", "--blobPort",
                          std::to_string(process_.port()), "--silent", "--disableTelemetry",
                          "--inMemoryPersistence", "--skipApiVersionCheck"})) {
      return false;
    }
    curl({"-X", "PUT", "-d", "",
          endpoint() + "/" + kContainer + "?restype=container&" + signature()});
    return true;
  }

  // A shared access signature of the whole account (Azure's "Create an account SAS"), in the form
  // of 2019-12-12: with it curl needs no signing of its own.
  static std::string signature() {
    const std::string rights = "rwdlac", services = "b", types = "sco";
    const std::string from = "2020-01-01T00:00:00Z", until = "2099-01-01T00:00:00Z";
    const std::string protocols = "https,http", version = "2019-12-12";
    std::string text = std::string(kAccount) + "\n" + rights + "\n" + services + "\n" + types +
                       "\n" + from + "\n" + until + "\n\n" + protocols + "\n" + version + "\n";
    unsigned char key[66], code[32];
    char encoded[45];
    EVP_DecodeBlock(key, reinterpret_cast<const unsigned char*>(kKey), sizeof kKey - 1);
    HMAC(EVP_sha256(), key, 64, reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         code, nullptr);
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded), code, sizeof code);
    return "sp=" + rights + "&ss=" + services + "&srt=" + types + "&st=" + from + "&se=" + until +
           "&spr=" + protocols + "&sv=" + version + "&sig=" + percent_encoded(encoded, "");
  }

  ServerProcess process_{"azurite"};
};

}  // namespace leat::testing
