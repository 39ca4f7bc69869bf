// NVTX ranges of this process: the collector is the tool that NVTX calls (NVTX_INJECTION64_PATH), and fdprof's markers
// may call it directly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "recording.h"

namespace fdprof {

// Ranges that begin and end from now on go to the recording; null: they go nowhere, and what threads still hold is
// handed over first.
void ranges_to(std::shared_ptr<Recording> into);

// Hands over what threads still hold.
void ranges_flush();

// A range that begins and ends a recording: its name, and its domain: "" the default one, "*" any.  `at` is called with true
// right before it begins, and says whether it began a recording; only then it is called with false right after that
// same range has ended, so that one inside it, or of another thread, ends nothing.
void watch_range(const std::string& name, const std::string& domain, bool (*at)(bool starts));

// Opens and closes a range of this thread in the domain "fdprof".
void range_push(uint32_t name, int64_t payload);
void range_pop();

// Whether the domain "fdprof" was made here through NVTX.  That some library's NVTX is bound to the collector would not
// do: each library has an NVTX of its own, and binds it at its own first use.
bool ranges_hear_markers();

// Forgets what the parent's threads held; called in a process that was forked.
void ranges_after_fork();

}  // namespace fdprof
