// Texts as numbers, for the whole life of the process: a range or a kernel costs a look-up and not a copy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fdprof {

// Returns the number of a text, the same each time, from 1 on.  Any thread.
uint32_t number_of(std::string_view text);

// Returns the text of a number that number_of gave.
std::string text_of(uint32_t number);

}  // namespace fdprof
