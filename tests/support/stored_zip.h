// A zip archive as torch.save lays it out, made by hand.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

/// The records, stored as they are, with checksums that fit.
inline std::string stored_zip(const std::vector<std::pair<std::string, std::string>>& records) {
  std::string archive;
  std::string directory;
  const auto put = [](std::string& text, std::uint64_t value, int bytes) {
    for (; bytes > 0; --bytes, value >>= 8)
      text += static_cast<char>(value);
  };
  for (const auto& [name, content] : records) {
    const auto* const data = reinterpret_cast<const Bytef*>(content.data());
    std::string facts;  // the same in both headers
    put(facts, 0, 2);   // flags
    put(facts, 0, 2);   // stored
    put(facts, 0, 4);   // time
    put(facts, ::crc32_z(0, data, content.size()), 4);
    put(facts, content.size(), 4);
    put(facts, content.size(), 4);
    put(facts, name.size(), 2);
    put(facts, 0, 2);  // extra field
    const std::size_t offset = archive.size();
    put(archive, 0x04034b50, 4);
    put(archive, 0, 2);
    archive += facts + name + content;
    put(directory, 0x02014b50, 4);
    put(directory, 0, 4);
    directory += facts;
    put(directory, 0, 2 + 2 + 2 + 4);  // comment, disk, attributes
    put(directory, offset, 4);
    directory += name;
  }
  std::string end;
  put(end, 0x06054b50, 4);
  put(end, 0, 4);
  put(end, records.size(), 2);
  put(end, records.size(), 2);
  put(end, directory.size(), 4);
  put(end, archive.size(), 4);
  put(end, 0, 2);
  return archive + directory + end;
}

}  // namespace ddp
