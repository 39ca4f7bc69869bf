#include "collector.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "activity.h"
#include "names.h"
#include "ranges.h"
#include "recording.h"

namespace fdprof {

namespace {

constexpr int FLUSH_MS = 1000;
constexpr const char* PROFILER_API = "cudaProfilerApi";

// What the environment asks of a process that was started with it.
struct Wanted {
  std::string folder;  // empty: nothing; else each recording makes a folder in it
  std::string range;   // empty: record from the start to the end
  int repeat = 1;
  bool cuda = true;
  Options options;
};

struct Collector {
  std::recursive_timed_mutex mutex;
  std::shared_ptr<Recording> recording;
  bool has_cuda = false;     // the driver has told that CUDA starts, or Python wants it
  bool traces_cuda = false;  // this recording does
  bool was_set_up = false;
  bool by_python = false;
  int taken = 0;
  Wanted wanted;
  std::string error;   // why this recording has no CUDA
  std::string refused;  // why the last call from Python failed
};

std::atomic<bool> forked{false};

Collector& collector() {
  static Collector* all = new Collector;
  if (forked.exchange(false)) {
    all = new Collector;  // the parent's may be in the middle of anything; its files stay the parent's
  }
  return *all;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void begin_cuda(Collector& all) {
  if (!all.has_cuda || !all.wanted.cuda || all.traces_cuda || all.recording == nullptr) {
    return;
  }
  all.error = activity_begin(all.recording, all.wanted.options);
  all.traces_cuda = all.error.empty();
}

bool begin(Collector& all, const std::string& folder) {
  auto recording = std::make_shared<Recording>(folder);
  if (recording->failed()) {
    all.error = "cannot write below " + folder + ": " + std::strerror(errno);
    return false;
  }
  all.recording = recording;
  ranges_to(recording);
  begin_cuda(all);
  return true;
}

void end(Collector& all, End how) {
  if (all.recording == nullptr) {
    return;
  }
  const std::shared_ptr<Recording> recording = all.recording;
  ranges_to(nullptr);
  recording->flush();  // before CUPTI, whose end may take the process along
  if (all.traces_cuda) {
    activity_end(how);
  }
  const bool knows_devices = all.traces_cuda && how != End::AT_EXIT;
  recording->finish(all.traces_cuda ? cupti_text() : "", knows_devices ? device_names() : std::vector<std::string>(),
                    all.error);
  all.traces_cuda = false;
  all.recording = nullptr;
}

// PID-NUMBER of the recording; one more number where that is there: after exec, or of a process id that is used again.
std::string next_folder(Collector& all) {
  const std::string first = all.wanted.folder + "/" + std::to_string(getpid()) + "-" + std::to_string(++all.taken);
  std::string folder = first;
  for (int more = 2; access(folder.c_str(), F_OK) == 0; ++more) {
    folder = first + "-" + std::to_string(more);
  }
  return folder;
}

// The wanted range, or the calls around it, begin and end a recording; returns whether one began.
bool at_range(bool starts) {
  Collector& all = collector();
  const std::lock_guard<std::recursive_timed_mutex> lock(all.mutex);
  if (starts && all.recording == nullptr && all.taken < all.wanted.repeat) {
    return begin(all, next_folder(all));
  }
  if (!starts) {
    // CUPTI stays while more ranges may come.  It must not leave from inside its own callback for another call.
    const bool is_last = all.taken >= all.wanted.repeat && all.wanted.range != PROFILER_API;
    end(all, is_last ? End::DETACH : End::STAY);
  }
  return false;
}

void end_recording(End how) {
  Collector& all = collector();
  // A thread that is inside CUPTI may want this lock while CUPTI keeps us waiting: a process must end all the same.
  const std::unique_lock<std::recursive_timed_mutex> lock(all.mutex, std::chrono::seconds(1));
  if (lock.owns_lock()) {
    end(all, how);
  }
}

// Python ends before the C library does, and with it goes what the driver needs: the end is best made there.
void end_with_python() {
  using AtExit = int (*)(void (*)());
  const auto at_exit = reinterpret_cast<AtExit>(dlsym(RTLD_DEFAULT, "Py_AtExit"));
  if (at_exit != nullptr) {
    at_exit([] { end_recording(End::STAY); });
  }
}

// What a process has done is written now and then, so that one which is killed loses little.
void flush_now_and_then(std::chrono::milliseconds period) {
  std::thread([period] {
    const int process = getpid();
    while (true) {
      std::this_thread::sleep_for(period);
      if (getpid() != process) {
        return;
      }
      Collector& all = collector();
      const std::lock_guard<std::recursive_timed_mutex> lock(all.mutex);
      if (all.recording == nullptr) {
        continue;
      }
      ranges_flush();
      // Not where CUPTI calls at_range, which takes the same lock inside CUPTI's own.
      if (all.wanted.range != PROFILER_API) {
        activity_flush();
      }
      all.recording->flush();
    }
  }).detach();
}

void set_up() {
  Collector& all = collector();
  const std::lock_guard<std::recursive_timed_mutex> lock(all.mutex);
  if (all.was_set_up) {
    return;
  }
  all.was_set_up = true;
  all.wanted.folder = variable("FDPROF_COLLECT_FOLDER");
  if (all.wanted.folder.empty()) {
    return;  // Python decides
  }
  all.wanted.range = variable("FDPROF_COLLECT_RANGE");
  all.wanted.repeat = std::max(1, std::atoi(variable("FDPROF_COLLECT_REPEAT").c_str()));
  all.wanted.cuda = variable("FDPROF_COLLECT_CUDA") != "0";
  all.wanted.options.nodes = variable("FDPROF_COLLECT_GRAPH") == "node";
  if (variable("FDPROF_COLLECT_DRIVER") == "0") {
    all.wanted.options.kinds &= ~kinds::DRIVER_CALLS;
  }
  if (all.wanted.range.empty()) {
    begin(all, next_folder(all));
  } else if (all.wanted.range != PROFILER_API) {
    const size_t at = all.wanted.range.rfind('@');
    watch_range(all.wanted.range.substr(0, at), at == std::string::npos ? "" : all.wanted.range.substr(at + 1),
                &at_range);
  }
  end_with_python();
  std::atexit([] { end_recording(End::AT_EXIT); });
  const std::string period = variable("FDPROF_COLLECT_FLUSH_MS");
  const int period_ms = period.empty() ? FLUSH_MS : std::atoi(period.c_str());
  if (period_ms > 0) {
    flush_now_and_then(std::chrono::milliseconds(period_ms));
  }
}

void in_forked_process() {
  forked = true;
  ranges_after_fork();
  activity_after_fork();
}

[[gnu::constructor]] void watch_forks() { pthread_atfork(nullptr, nullptr, &in_forked_process); }

}  // namespace

void collector_on_nvtx() { set_up(); }

void collector_awake() {
  if (forked.load(std::memory_order_relaxed)) {
    set_up();
  }
}

}  // namespace fdprof

#define FDPROF_EXPORT extern "C" __attribute__((visibility("default")))

// The CUDA driver calls this while it starts, where CUDA_INJECTION64_PATH names this library.
FDPROF_EXPORT int InitializeInjection() {
  using namespace fdprof;
  set_up();
  Collector& all = collector();
  const std::lock_guard<std::recursive_timed_mutex> lock(all.mutex);
  if (all.wanted.folder.empty() || all.has_cuda || !all.wanted.cuda) {
    return 1;
  }
  all.has_cuda = true;
  begin_cuda(all);
  if (all.wanted.range == PROFILER_API && all.error.empty()) {
    all.error = watch_profiler_calls(&at_range);
  }
  if (!all.error.empty()) {
    // There is no one to raise to: the reader finds it beside the recordings.
    std::ofstream(all.wanted.folder + "/" + std::to_string(getpid()) + ".error") << all.error << "\n";
  }
  return 1;
}

// Begins a recording, of what the bits of activity.h say, in a folder; 0, or 1 with the reason in fdprof_collect_error.
FDPROF_EXPORT int fdprof_collect_start(const char* folder, int nodes, uint32_t wanted_kinds, int cuda) {
  using namespace fdprof;
  set_up();
  Collector& all = collector();
  const std::lock_guard<std::recursive_timed_mutex> lock(all.mutex);
  if (all.recording != nullptr || !all.wanted.folder.empty()) {
    all.refused = "this process is being recorded already";
    return 1;
  }
  if ((wanted_kinds & ~kinds::ALL) != 0) {
    all.refused = "no such kinds of records: " + std::to_string(wanted_kinds & ~kinds::ALL);
    return 1;
  }
  all.error.clear();
  all.wanted.options = Options{nodes != 0, wanted_kinds};
  all.wanted.cuda = cuda != 0;
  all.has_cuda = true;
  if (begin(all, folder) && all.error.empty()) {
    return 0;
  }
  all.refused = all.error;
  if (all.recording != nullptr) {
    ranges_to(nullptr);
    all.recording = nullptr;
  }
  return 1;
}

// Ends the recording that fdprof_collect_start began, and detaches CUPTI; 0, or 1 where there is none.
FDPROF_EXPORT int fdprof_collect_stop() {
  using namespace fdprof;
  Collector& all = collector();
  const std::lock_guard<std::recursive_timed_mutex> lock(all.mutex);
  if (all.recording == nullptr || !all.wanted.folder.empty()) {
    all.refused = "no recording was started here";
    return 1;
  }
  end(all, End::DETACH);
  return 0;
}

// Returns 1 where NVTX brings fdprof's own ranges: it may have been bound to another tool or to none.
FDPROF_EXPORT int fdprof_hears_markers() { return fdprof::ranges_hear_markers() ? 1 : 0; }

FDPROF_EXPORT const char* fdprof_collect_error() { return fdprof::collector().refused.c_str(); }

// Returns the size of a table's row, so that the reader can check that it means the same; 0: no such table.
FDPROF_EXPORT uint32_t fdprof_row_size(int table) {
  return table >= 0 && table < fdprof::TABLES ? fdprof::ROW_SIZES[table] : 0;
}

FDPROF_EXPORT uint32_t fdprof_range_name(const char* text) { return fdprof::number_of(text); }
FDPROF_EXPORT void fdprof_range_push(uint32_t name, int64_t payload) { fdprof::range_push(name, payload); }
FDPROF_EXPORT void fdprof_range_pop() { fdprof::range_pop(); }
