#include "worker/train/picture_writer.h"

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/files/files.h"
#include "worker/image/png.h"

namespace ddp::worker {

void PictureWriter::write(Pictures pictures) {
  if (pictures.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (Picture& one : pictures) {
      waiting_.insert_or_assign(one.name + ".png", [draw = std::move(one.draw)] {
        const std::vector<std::uint8_t> png = encode_png(draw());
        return std::string(reinterpret_cast<const char*>(png.data()), png.size());
      });
    }
  }
  begin();
}

void PictureWriter::write_text(const std::string& file, std::function<std::string()> text) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.insert_or_assign(file, std::move(text));
  }
  begin();
}

void PictureWriter::begin() {
  try {
    background_.start([this] { write_waiting(); });
  } catch (const SystemError& error) {
    warn(std::string("cannot draw pictures: ") + error.what());
  }
}

void PictureWriter::write_waiting() {
  while (true) {
    std::string file;
    MakeBytes make;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return;
      auto next = waiting_.extract(waiting_.begin());
      file = next.key();
      make = std::move(next.mapped());
    }
    write_one(file, make);
  }
}

void PictureWriter::write_one(const std::string& file, const MakeBytes& make) {
  if (file.find('/') != std::string::npos) {
    warn("cannot write " + file + ": a name has no /");
    return;
  }
  // The drawing code may be the user's, and nobody else catches exceptions on this thread.
  try {
    replace_file(directory_, file, make());
  } catch (const std::exception& error) {
    warn("cannot write " + file + ": " + error.what());
  }
}

void PictureWriter::warn(const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_warned_, true)) return;
  }
  log::warning(what + ". Training goes on without it, and further ones are not reported.");
}

}  // namespace ddp::worker
