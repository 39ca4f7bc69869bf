// CUPTI's activity tracing: when it is in the process, what it traces, and the buffers that it fills.
// Source: CUPTI's manual, "CUPTI Activity API" and "Dynamic attach and detach".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "recording.h"

namespace fdprof {

struct Options {
  bool nodes = false;   // every kernel of a CUDA graph, instead of the graph as one
  bool driver = true;   // calls into the driver API too
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
