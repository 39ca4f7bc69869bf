// The rows that the collector writes, as they lie in its files: little-endian, without gaps, times in ns of
// CLOCK_MONOTONIC.  fdprof/recordings.py reads them; fdprof_row_size lets it check that both mean the same.
#pragma once

#include <cstdint>

namespace fdprof {

enum Table : int { API, WORK, RANGE, SYNC, EVENT, OVERHEAD, CONTEXT, STREAM, TABLES };

// One call into the runtime (domain 0) or driver (domain 1) API.
struct ApiRow {
  uint64_t start_ns, end_ns;
  uint32_t thread;  // gettid
  uint32_t correlation;
  uint32_t callback;  // CUPTI's id of the function
  uint32_t domain;
};

enum WorkKind : uint8_t { KERNEL = 0, COPY = 1, MEMSET = 2, GRAPH = 3 };

// One piece of device work.  `from` and `to` are CUpti_ActivityMemoryKind, `copy` is CUpti_ActivityMemcpyKind.
struct WorkRow {
  uint64_t start_ns, end_ns;
  uint64_t bytes;
  uint32_t correlation;
  uint32_t device, context, stream;
  uint32_t name;  // of a kernel
  uint8_t kind, copy, from, to;
};

// One NVTX range; `payload` is -1 where none was given.
struct RangeRow {
  uint64_t start_ns, end_ns;
  int64_t payload;
  uint32_t thread;
  uint32_t name;
  uint32_t domain;  // number of the domain's name, 0: the default domain
  uint32_t reserved;
};

// What a synchronising call waited for: CUpti_ActivitySynchronizationType; `event_sync` joins it to its record, 0: none.
struct SyncRow {
  uint64_t start_ns, end_ns;
  uint64_t event_sync;
  uint32_t correlation;
  uint32_t type;
  uint32_t context, stream, event;
  uint32_t reserved;
};

// One record of a CUDA event.
struct EventRow {
  uint64_t event_sync;
  uint32_t correlation;
  uint32_t context, stream, event;
};

// A time in which CUPTI says that it held up a thread (0: not told which).
struct OverheadRow {
  uint64_t start_ns, end_ns;
  uint32_t thread;
  uint32_t kind;  // CUpti_ActivityOverheadKind
};

struct ContextRow {
  uint32_t context, device, null_stream, reserved;
};

// `flag` is CUpti_ActivityStreamFlag.
struct StreamRow {
  uint32_t context, stream, flag, reserved;
};

inline constexpr const char* TABLE_NAMES[TABLES] = {"api",   "work",     "ranges",   "syncs",
                                                    "events", "overhead", "contexts", "streams"};
inline constexpr uint32_t ROW_SIZES[TABLES] = {sizeof(ApiRow),   sizeof(WorkRow),     sizeof(RangeRow),   sizeof(SyncRow),
                                               sizeof(EventRow), sizeof(OverheadRow), sizeof(ContextRow), sizeof(StreamRow)};

}  // namespace fdprof
