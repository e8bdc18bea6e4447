// The messages between agents as JSON text, one frame each. Pure.
// Promises: from any bytes, a decoder makes a whole message or nothing: known types only, every
// field there, of its type and in its range, depth at most 16; unknown fields are ignored. Every
// number is in the range of a job, and a sum of a few never overflows. Texts for a console (names,
// lines, reports) come out without terminal control.
// Whatever a worker wrote, an encoder makes valid JSON of at most kLongestFrame bytes: bytes that
// are not UTF-8 become U+FFFD, and if there is too much text, the oldest is dropped first.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/plan/round/messages.h"
#include "launcher/plan/wire/frames.h"

namespace ddp::launcher {

std::string encode(const Hello& hello);
std::string encode(const Welcome& welcome);
std::string encode(const Refusal& refusal);
std::string encode(const NodeCommand& command);
std::string encode(const NodeEvent& event);

/// From another version only `protocol` and `version` are read, as the rest may be anything.
std::optional<Hello> decode_hello(std::string_view text);
/// A Refusal is the same in every version.
std::optional<Answer> decode_answer(std::string_view text);
std::optional<NodeCommand> decode_command(std::string_view text);
std::optional<NodeEvent> decode_event(std::string_view text);

inline constexpr std::size_t kLongestLine = 4 << 10;      // of a worker's output in a message
inline constexpr std::size_t kLongestEndText = 64 << 10;  // each text of the verdict
inline constexpr std::size_t kLongestText = 16 << 10;     // of any other text
inline constexpr std::size_t kLongestName = 256;          // of a host, a program, a version

}  // namespace ddp::launcher
