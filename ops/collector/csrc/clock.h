// The collector's one clock, which CUPTI is given too, so that host calls, device work and ranges need no alignment.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace fdprof {

inline uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// Asked of the system once a thread; 0: not yet.
inline thread_local uint32_t known_thread_id = 0;

inline uint32_t thread_id() {
  if (known_thread_id == 0) {
    known_thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  }
  return known_thread_id;
}

}  // namespace fdprof
