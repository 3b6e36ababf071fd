// SPDX-License-Identifier: Apache-2.0
#include "frontends/console/host_field.h"

#include <gtest/gtest.h>

#include <string>

namespace leat {
namespace {

TEST(LoopbackHost, WhatABrowserSendsForThisHost) {
  for (const char* host :
       {"localhost", "localhost:9464", "LocalHost:80", "127.0.0.1", "127.0.0.1:9464",
        "127.1.2.3:65535", "127.255.255.255", "[::1]", "[::1]:9464"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
}

TEST(LoopbackHost, EverythingElseIsForeign) {
  for (const char* host : {"",
                           ":",
                           ":80",
                           "leat.example",
                           "127.0.0.1.evil.example",
                           "localhost.evil.example",
                           "evil.example:127",
                           "evil-localhost",
                           "localhost.",
                           "localhost:",
                           "localhost:0",
                           "localhost:65536",
                           "localhost:9464x",
                           "localhost:-1",
                           "localhost: 80",
                           " localhost",
                           "localhost ",
                           "localhost,evil.example",
                           "user@localhost",
                           "0.0.0.0",
                           "10.0.0.1",
                           "127",
                           "127.1",
                           "127.0.1",
                           "0127.0.0.1",
                           "127.0.0.01",
                           "0x7f.0.0.1",
                           "2130706433",
                           "127.0.0.256",
                           "126.255.255.255",
                           "128.0.0.1",
                           "::1",
                           "[::1",
                           "::1]",
                           "[::1]x",
                           "[::1]:",
                           "[::2]:80",
                           "[::]",
                           "[::ffff:127.0.0.1]",
                           "[0:0:0:0:0:0:0:1]",
                           "[::1%lo]",
                           "[]"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
  EXPECT_FALSE(is_loopback_host(std::string_view("127.0.0.1\0.evil.example", 23)));
  EXPECT_FALSE(is_loopback_host(std::string(10'000, '1')));
}

TEST(HostNames, AreThoseOfTheConfigurationWithAnyPort) {
  const std::vector<std::string> names = {"leat.lan", "[fd00::1]"};
  for (const char* host : {"leat.lan", "LEAT.lan:443", "[fd00::1]", "[fd00::1]:9464"}) {
    EXPECT_TRUE(is_accepted_host(host, names)) << host;
  }
  for (const char* host :
       {"", "evil.leat.lan", "leat.lan.evil", "leat.lan:", "leat.lan:x", "fd00::1", "localhost"}) {
    EXPECT_FALSE(is_accepted_host(host, names)) << host;
  }
  EXPECT_FALSE(is_accepted_host("leat.lan", {}));
}

TEST(HostNames, AreReadFromTheConfiguration) {
  EXPECT_EQ(parse_host_names("").value(), std::vector<std::string>());
  EXPECT_EQ(parse_host_names(" ").value(), std::vector<std::string>());
  EXPECT_EQ(parse_host_names("a.b, C-1,[::2]").value(),
            (std::vector<std::string>{"a.b", "C-1", "[::2]"}));
  for (const char* text : {"a,", ",a", "a b", "a:80", "http://a", "*", "::2", "a/b", "[::2]:80"}) {
    EXPECT_EQ(parse_host_names(text).error().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace leat
