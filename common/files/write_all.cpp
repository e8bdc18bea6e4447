#include "common/files/write_all.h"

#include <unistd.h>

namespace ddp {

bool write_all(int fd, std::string_view text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t more = ::write(fd, text.data() + sent, text.size() - sent);
    if (more < 0) return false;
    sent += static_cast<std::size_t>(more);
  }
  return true;
}

}  // namespace ddp
