// CLOCK_MONOTONIC in ns: the clock behind Python's time.perf_counter_ns on Linux, so that stamps of both compare.
#pragma once

#include <cstdint>
#include <ctime>

namespace fdprof {

inline int64_t host_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

}  // namespace fdprof
