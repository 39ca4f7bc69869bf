// One recording of one process: a folder with a file of rows for each table, written as rows come, so that a process
// that is killed loses only what CUPTI still holds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "rows.h"

namespace fdprof {

class Recording {
 public:
  // Makes the folder and its files; failed() says whether that worked.
  explicit Recording(std::string folder);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  bool failed() const { return failed_; }
  uint64_t start_ns() const { return start_ns_; }

  // Appends `count` rows of a table.  Any thread.
  void append(Table table, const void* rows, size_t count);

  // Notes a name under its number, and the function behind CUPTI's callback id; each once, so ask first.
  bool knows_name(uint32_t number);
  void name(uint32_t number, const std::string& text);
  bool knows_callback(uint32_t domain, uint32_t callback);
  void callback_name(uint32_t domain, uint32_t callback, const std::string& text);

  void dropped(uint64_t records) { dropped_ += records; }
  // Work without a time, which CUPTI gives for what was not over when the recording was.
  void untimed(uint64_t records) { untimed_ += records; }

  // Writes what is buffered.
  void flush();

  // Writes the rest: threads' and devices' names, the counts, and what went wrong; the recording is whole from then on.
  void finish(const std::string& cupti, const std::vector<std::string>& devices, const std::string& error);

 private:
  struct File {
    std::mutex mutex;
    int descriptor = -1;
    std::vector<char> waiting;
    uint64_t lost = 0;
  };

  void write_out(File& file);
  int open_file(const std::string& name);
  void write_text(const std::string& name, const std::string& text);

  const std::string folder_;
  const uint64_t start_ns_;
  bool failed_ = false;
  File files_[TABLES];
  std::mutex names_mutex_;
  int names_ = -1, callbacks_ = -1;
  std::unordered_set<uint32_t> named_;
  std::unordered_set<uint64_t> callback_named_;
  std::atomic<uint64_t> dropped_{0}, untimed_{0};
};

// Returns `text` as a JSON string, quotes included; bytes that are no ASCII become '?'.
std::string json_text(const std::string& text);

}  // namespace fdprof
