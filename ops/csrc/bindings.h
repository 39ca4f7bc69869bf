// The parts of the Python module.
#pragma once

#include "paddle/extension.h"

namespace fdprof {

// Publication and DecodeLoop; needs Stream bound before.
void bind_decode_loop(py::module_& m);

// A timeout from Python in ns; throws std::invalid_argument when out of range.
int64_t checked_ns(double seconds, const char* name);
inline int64_t timeout_ns(double timeout_s) { return checked_ns(timeout_s, "timeout_s"); }

}  // namespace fdprof
