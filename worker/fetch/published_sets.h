// The data sets that `ddp-worker fetch` can download: where they are published, and what their
// files must be. A file is trusted because of its digest, not because of its address.
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
  std::string address;  // prefix of the files' addresses; ends with a slash
  std::string folder;   // torchvision's, below the directory that the user names: "MNIST/raw"
  std::vector<PublishedFile> files;      // what the folder holds in the end
  std::optional<PublishedFile> archive;  // the .tar.gz that contains them, as FOLDER/NAME
  std::vector<std::string> extras;       // small files, unpacked if the archive has them
};

const std::vector<PublishedSet>& published_sets();

}  // namespace ddp::worker
