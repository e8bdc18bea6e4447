// The data sets that `ddp-worker fetch` gets: where they are published, and what their files must
// be. A file is trusted for its digest, not for its address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp::worker {

struct PublishedFile {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::string sha256;      // 64 hexadecimal digits
};

struct PublishedSet {
  std::string name;     // as data.name says it
  std::string address;  // what precedes a file's name, with the slash at its end
  std::string folder;   // torchvision's, below the directory that the user names: "MNIST/raw"
  std::vector<PublishedFile> files;      // what lies in the folder at the end
  std::optional<PublishedFile> archive;  // the .tar.gz in which they come, as FOLDER/NAME
  std::vector<std::string> extras;       // small files of the archive, unpacked if it has them
};

const std::vector<PublishedSet>& published_sets();

}  // namespace ddp::worker
