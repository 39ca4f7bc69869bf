#include "cupti_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace fdprof {

namespace {

int collect_path(dl_phdr_info* info, size_t, void* found) {
  const char* slash = strrchr(info->dlpi_name, '/');
  if (slash != nullptr && strncmp(slash + 1, "libcupti.so", strlen("libcupti.so")) == 0) {
    static_cast<std::vector<std::string>*>(found)->push_back(info->dlpi_name);
  }
  return 0;
}

// Fills in the functions of one library; false, with the reason, where it cannot be used.
bool bind(Cupti& cupti, const std::string& path, std::string& why) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why = dlerror();
    return false;
  }
#define FDPROF_FIND(function)                                                         \
  cupti.function = reinterpret_cast<decltype(&::function)>(dlsym(library, #function)); \
  if (cupti.function == nullptr) {                                                    \
    why = path + " has no " #function;                                                \
    return false;                                                                     \
  }
  FDPROF_CUPTI_FUNCTIONS(FDPROF_FIND)
#undef FDPROF_FIND
  const Dl_info none{};
  Dl_info where = none;
  dladdr(reinterpret_cast<void*>(cupti.cuptiGetVersion), &where);
  cupti.path = where.dli_fname == nullptr ? path : where.dli_fname;
  cupti.cuptiGetVersion(&cupti.version);
  // Records only grow at their end, so a newer library fills what these headers declare, and an older one does not.
  if (cupti.version < CUPTI_API_VERSION) {
    why = cupti.path + " is version " + std::to_string(cupti.version) + ", older than the headers that the collector " +
          "was built with, version " + std::to_string(CUPTI_API_VERSION);
    return false;
  }
  return true;
}

}  // namespace

const Cupti* Cupti::load(std::string& why) {
  static const Cupti* found = nullptr;
  if (found != nullptr) {
    return found;
  }
  std::vector<std::string> candidates;
  dl_iterate_phdr(&collect_path, &candidates);
  const char* chosen = std::getenv("FDPROF_CUPTI");
  if (chosen != nullptr && *chosen != '\0') {
    candidates.emplace_back(chosen);
  }
  candidates.emplace_back("libcupti.so");
  for (const std::string& path : candidates) {
    auto cupti = std::make_unique<Cupti>();
    std::string reason;
    if (bind(*cupti, path, reason)) {
      found = cupti.release();
      return found;
    }
    why += (why.empty() ? "" : "; ") + reason;
  }
  return nullptr;
}

std::string Cupti::text_of(CUptiResult result) const {
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  return text == nullptr ? "CUPTI error " + std::to_string(result) : text;
}

void* driver_function(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

}  // namespace fdprof
