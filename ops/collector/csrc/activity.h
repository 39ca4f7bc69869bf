// CUPTI's activity tracing: when it is in the process, what it traces, and the buffers that it fills.
// Source: CUPTI's manual, "CUPTI Activity API" and "Dynamic attach and detach".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recording.h"

namespace fdprof {

// What is recorded of CUDA, a bit each; native.py has the same.  Less than all of it serves to find what costs what.
namespace kinds {
constexpr uint32_t LAUNCHES = 1 << 0;      // the runtime's calls that launch
constexpr uint32_t OTHER_CALLS = 1 << 1;   // its other calls, less the idle talk
constexpr uint32_t DRIVER_CALLS = 1 << 2;  // calls into the driver API
constexpr uint32_t WAITS = 1 << 3;         // what synchronising calls waited for
constexpr uint32_t EVENTS = 1 << 4;        // records of CUDA events
constexpr uint32_t KERNELS = 1 << 5;
constexpr uint32_t COPIES = 1 << 6;        // and memsets
constexpr uint32_t GRAPHS = 1 << 7;        // graphs as one piece of work, unless their nodes are wanted
constexpr uint32_t PLACES = 1 << 8;        // contexts and streams as they are made
constexpr uint32_t CUPTI_ITSELF = 1 << 9;  // the time that CUPTI says it took
constexpr uint32_t ALL = (1 << 10) - 1;
}  // namespace kinds

struct Options {
  bool nodes = false;   // every kernel of a CUDA graph, instead of the graph as one
  uint32_t kinds = kinds::ALL;
};

// Begins to trace CUDA into the recording; returns the reason where that cannot be, else "".
std::string activity_begin(std::shared_ptr<Recording> into, const Options& options);

// Has CUPTI hand over the records that are complete.
void activity_flush();

enum class End {
  STAY,     // wait for the device, so that nothing is unfinished; CUPTI stays for a next recording
  DETACH,   // the same, and CUPTI leaves the process, which alone brings the bare speed back
  AT_EXIT,  // take what there is
};

// Stops tracing: what CUPTI holds is written.
void activity_end(End how);

// Returns CUPTI's version and file, "" where none was loaded.
std::string cupti_text();

// Returns the names of the devices, by number.
std::vector<std::string> device_names();

// Calls `at` with true at cudaProfilerStart and with false at cudaProfilerStop; returns the reason where it cannot.
std::string watch_profiler_calls(bool (*at)(bool starts));

// Forgets the parent's tracing; called in a process that was forked, in which CUDA and CUPTI of the parent are dead.
void activity_after_fork();

}  // namespace fdprof
