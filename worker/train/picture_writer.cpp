#include "worker/train/picture_writer.h"

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files.h"
#include "common/log.h"
#include "worker/image/png.h"

namespace ddp::worker {

void PictureWriter::write(Pictures pictures) {
  if (pictures.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (Picture& one : pictures) {
      const std::string name = one.name;
      waiting_.insert_or_assign(name, std::move(one));
    }
  }
  try {
    background_.start([this] { write_waiting(); });
  } catch (const SystemError& error) {
    warn(std::string("cannot draw pictures: ") + error.what());
  }
}

void PictureWriter::write_waiting() {
  while (true) {
    Picture next;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return;
      next = std::move(waiting_.extract(waiting_.begin()).mapped());
    }
    write_one(next);
  }
}

void PictureWriter::write_one(const Picture& picture) {
  const std::string file = picture.name + ".png";
  if (file.find('/') != std::string::npos) {
    warn("cannot write the picture " + file + ": a name has no /");
    return;
  }
  // What draws may be a program's own, and nobody could catch it above a thread.
  try {
    const std::vector<std::uint8_t> png = encode_png(picture.draw());
    replace_file(directory_, file, {reinterpret_cast<const char*>(png.data()), png.size()});
  } catch (const std::exception& error) {
    warn("cannot write the picture " + file + ": " + error.what());
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
