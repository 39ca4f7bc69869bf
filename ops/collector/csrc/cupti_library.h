// CUPTI's functions, found when the collector starts: a process must have one CUPTI, and may have brought its own
// (PyTorch does), so nothing is linked.
#pragma once

#include <cupti.h>

#include <string>

namespace fdprof {

#if CUPTI_API_VERSION >= 24  // CUDA 12.6; what is older records every function of an API, which costs more
#define FDPROF_CUPTI_CHOICE(X) X(cuptiActivityEnableRuntimeApi) X(cuptiActivityEnableDriverApi)
#else
#define FDPROF_CUPTI_CHOICE(X)
#endif

#define FDPROF_CUPTI_FUNCTIONS(X)                                                                                    \
  X(cuptiGetVersion) X(cuptiGetResultString) X(cuptiSubscribe) X(cuptiUnsubscribe) X(cuptiEnableCallback)            \
  X(cuptiFinalize) X(cuptiGetCallbackName) X(cuptiActivityEnable) X(cuptiActivityDisable)                            \
  X(cuptiActivityRegisterCallbacks) X(cuptiActivityRegisterTimestampCallback) X(cuptiActivityGetNextRecord)          \
  X(cuptiActivityGetNumDroppedRecords) X(cuptiActivityFlushAll) X(cuptiSetThreadIdType) X(cuptiGetContextId)         \
  X(cuptiGetDeviceId) X(cuptiGetStreamIdEx) X(cuptiActivitySetAttribute) FDPROF_CUPTI_CHOICE(X)

struct Cupti {
#define FDPROF_MEMBER(function) decltype(&::function) function = nullptr;
  FDPROF_CUPTI_FUNCTIONS(FDPROF_MEMBER)
#undef FDPROF_MEMBER
  uint32_t version = 0;
  std::string path;

  // Returns CUPTI, or null with the reason in `why`: the copy that the process has loaded, where that is as new as the
  // headers, else the one that FDPROF_CUPTI names, else the loader's own.
  static const Cupti* load(std::string& why);

  // Returns what a result means, in CUPTI's words.
  std::string text_of(CUptiResult result) const;
};

// Returns a function of the CUDA driver, null where there is none.
void* driver_function(const char* name);

}  // namespace fdprof
