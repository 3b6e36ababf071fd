// SPDX-License-Identifier: Apache-2.0
// coroutine_pch.h and the headers that nearly every test of coroutines includes. The tests of
// modules with PCH use it; never included by name.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <ranges>
#include <span>
#include <string_view>
#include <thread>

#include "runtime/coroutine_pch.h"
