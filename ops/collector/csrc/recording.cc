#include "recording.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "clock.h"

namespace fdprof {

namespace {

constexpr size_t BUFFER_BYTES = 1 << 16;

// Writes all of it, or nothing: a part of a row would shift every row after it.
bool write_all(int descriptor, const char* data, size_t size) {
  const off_t before = lseek(descriptor, 0, SEEK_CUR);
  while (size > 0) {
    const ssize_t written = write(descriptor, data, size);
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (before >= 0 && ftruncate(descriptor, before) == 0) {
        lseek(descriptor, before, SEEK_SET);
      }
      return false;
    }
    data += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

// One line a name: the number, a blank, the text; a line break inside it would begin another.
std::string line_of(const std::string& key, const std::string& text) {
  std::string line = key + " " + text;
  for (char& c : line) {
    if (c == '\n' || c == '\r') {
      c = ' ';
    }
  }
  return line + "\n";
}

std::string thread_names() {
  std::string lines;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) {
    return lines;
  }
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') {  // "..", which has a comm too
      continue;
    }
    char text[64] = {};
    const int file = open(("/proc/self/task/" + std::string(entry->d_name) + "/comm").c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      continue;
    }
    const ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size > 0) {
      lines += line_of(entry->d_name, std::string(text, strcspn(text, "\n")));
    }
  }
  closedir(tasks);
  return lines;
}

}  // namespace

std::string json_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += (c < 0x20 || c > 0x7e) ? '?' : c;
  }
  return quoted + "\"";
}

Recording::Recording(std::string folder) : folder_(std::move(folder)), start_ns_(now_ns()) {
  if (mkdir(folder_.c_str(), 0755) != 0 && errno != EEXIST) {
    failed_ = true;
    return;
  }
  for (int table = 0; table < TABLES; ++table) {
    files_[table].descriptor = open_file(TABLE_NAMES[table]);
    files_[table].waiting.reserve(BUFFER_BYTES);
  }
  names_ = open_file("names");
  callbacks_ = open_file("callbacks");
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  char text[160];
  std::snprintf(text, sizeof text, "{\"process\": %d, \"start_ns\": %llu, \"start_utc_ns\": %lld}\n",
                static_cast<int>(getpid()), static_cast<unsigned long long>(start_ns_),
                static_cast<long long>(now.tv_sec) * 1000000000ll + now.tv_nsec);
  write_text("begin.json", text);
}

Recording::~Recording() {
  for (File& file : files_) {
    if (file.descriptor >= 0) {
      close(file.descriptor);
    }
  }
  close(names_);
  close(callbacks_);
}

int Recording::open_file(const std::string& name) {
  const int descriptor = open((folder_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  failed_ = failed_ || descriptor < 0;
  return descriptor;
}

void Recording::write_text(const std::string& name, const std::string& text) {
  const std::string part = name + ".part";
  const int descriptor = open_file(part);
  if (descriptor < 0) {
    return;
  }
  const bool is_whole = write_all(descriptor, text.data(), text.size());
  close(descriptor);
  const std::string path = folder_ + "/" + part;
  if (!is_whole || rename(path.c_str(), (folder_ + "/" + name).c_str()) != 0) {
    failed_ = true;
    unlink(path.c_str());
  }
}

void Recording::append(Table table, const void* rows, size_t count) {
  File& file = files_[table];
  const size_t size = count * ROW_SIZES[table];
  const std::lock_guard<std::mutex> lock(file.mutex);
  const char* bytes = static_cast<const char*>(rows);
  file.waiting.insert(file.waiting.end(), bytes, bytes + size);
  if (file.waiting.size() >= BUFFER_BYTES) {
    write_out(file);
  }
}

void Recording::write_out(File& file) {
  const auto table = static_cast<size_t>(&file - files_);
  if (!file.waiting.empty() && !write_all(file.descriptor, file.waiting.data(), file.waiting.size())) {
    file.lost += file.waiting.size() / ROW_SIZES[table];  // the disk is full, say; counted, and told by the reader
  }
  file.waiting.clear();
}

bool Recording::knows_name(uint32_t number) {
  const std::lock_guard<std::mutex> lock(names_mutex_);
  return !named_.insert(number).second;
}

void Recording::name(uint32_t number, const std::string& text) {
  const std::lock_guard<std::mutex> lock(names_mutex_);
  const std::string line = line_of(std::to_string(number), text);
  write_all(names_, line.data(), line.size());
}

bool Recording::knows_callback(uint32_t domain, uint32_t callback) {
  const std::lock_guard<std::mutex> lock(names_mutex_);
  return !callback_named_.insert((static_cast<uint64_t>(domain) << 32) | callback).second;
}

void Recording::callback_name(uint32_t domain, uint32_t callback, const std::string& text) {
  const std::lock_guard<std::mutex> lock(names_mutex_);
  const std::string line = line_of(std::to_string(domain) + " " + std::to_string(callback), text);
  write_all(callbacks_, line.data(), line.size());
}

void Recording::flush() {
  for (File& file : files_) {
    const std::lock_guard<std::mutex> lock(file.mutex);
    write_out(file);
  }
}

void Recording::finish(const std::string& cupti, const std::vector<std::string>& devices, const std::string& error) {
  flush();
  uint64_t lost = 0;
  for (File& file : files_) {
    const std::lock_guard<std::mutex> lock(file.mutex);
    lost += file.lost;
  }
  write_text("threads", thread_names());
  std::string names = "[";
  for (const std::string& device : devices) {
    names += (names.size() > 1 ? ", " : "") + json_text(device);
  }
  write_text("end.json", "{\"end_ns\": " + std::to_string(now_ns()) + ", \"dropped\": " + std::to_string(dropped_) +
                             ", \"untimed\": " + std::to_string(untimed_) + ", \"not_written\": " + std::to_string(lost) +
                             ", \"cupti\": " + json_text(cupti) + ", \"devices\": " + names +
                             "], \"error\": " + json_text(error) + "}\n");
}

}  // namespace fdprof
