#include "names.h"

#include <pthread.h>

#include <deque>
#include <map>
#include <mutex>

namespace fdprof {

namespace {

struct Texts {
  std::mutex mutex;
  std::map<std::string, uint32_t, std::less<>> numbers;
  std::deque<std::string> texts;
};

// Never destroyed: ranges may still come while the process ends.
Texts& texts() {
  static auto* const all = new Texts;
  return *all;
}

// A fork copies the lock as it is, and no other thread that could open it: so it is held across each fork.
[[gnu::constructor]] void be_free_in_forked_processes() {
  pthread_atfork([] { texts().mutex.lock(); }, [] { texts().mutex.unlock(); }, [] { texts().mutex.unlock(); });
}

}  // namespace

uint32_t number_of(std::string_view text) {
  // Each thread keeps what it has seen, so that threads do not wait for one another.
  static thread_local std::map<std::string, uint32_t, std::less<>> seen;
  const auto mine = seen.find(text);
  if (mine != seen.end()) {
    return mine->second;
  }
  Texts& all = texts();
  uint32_t number;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.numbers.find(text);
    if (found != all.numbers.end()) {
      number = found->second;
    } else {
      all.texts.emplace_back(text);
      number = static_cast<uint32_t>(all.texts.size());
      all.numbers.emplace(std::string(text), number);
    }
  }
  seen.emplace(std::string(text), number);
  return number;
}

std::string text_of(uint32_t number) {
  Texts& all = texts();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return number >= 1 && number <= all.texts.size() ? all.texts[number - 1] : std::string();
}

}  // namespace fdprof
