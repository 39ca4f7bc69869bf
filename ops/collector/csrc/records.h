// CUPTI's activity records as rows.  Source of what each kind is: CUPTI's manual, "CUPTI Activity API".
//
// Only the oldest form of each record is read, and newer fields where the headers have them: records grow at their end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti_library.h"
#include "recording.h"

namespace fdprof {

// Appends the records of one buffer to the recording.  Any thread.
void append_records(const Cupti& cupti, Recording& into, uint8_t* buffer, size_t valid_size);

}  // namespace fdprof
