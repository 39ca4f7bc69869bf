// Relates the device's %globaltimer to the host's CLOCK_MONOTONIC by a ping-pong through mapped memory.
#pragma once

#include <cstdint>

namespace fdprof {

// One side writes `request`, the other the rest; on separate cache lines, so that the polls do not disturb the writes.
struct ClockMailbox {
  alignas(128) volatile uint64_t request;  // by the host: number of the round to answer
  volatile uint64_t quit;                  // by the host: end now
  alignas(128) volatile int64_t device_ns;  // by the kernel
  volatile uint64_t answer;                 // by the kernel: number of the round answered
};

// At one instant the host clock read host_ns and the device clock device_ns, within error_ns.
struct ClockPair {
  int64_t host_ns;
  int64_t device_ns;
  int64_t error_ns;
};

ClockPair align_clocks(int64_t rounds, int64_t timeout_ns);

}  // namespace fdprof
