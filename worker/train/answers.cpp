#include "worker/train/answers.h"

#include "common/one_line.h"
#include "common/utf8.h"

namespace ddp::worker {

std::string json_text(const std::string& text) {
  return valid_utf8(text) == text.size() ? text : one_line(text, kLongestAnswer);
}

}  // namespace ddp::worker
