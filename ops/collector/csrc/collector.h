// The collector of one process: when it records, and into which folder.  It is one library in three roles: what NVTX
// and what the CUDA driver load by environment variable, and what Python calls.
#pragma once

namespace fdprof {

// Called when NVTX, in one library of the process, begins to use the collector.
void collector_on_nvtx();

// Called at each range: a process that was forked begins its own recording here.  Cheap where there is nothing to do.
void collector_awake();

}  // namespace fdprof
