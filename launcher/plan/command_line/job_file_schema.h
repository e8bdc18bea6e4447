// The JSON Schema of job files: editors with a YAML language server complete keys by it, tell what
// they are, and underline what is wrong. Derived from the table of keys. What keys need or exclude
// each other is not in it: --dry-run and --check tell that.
#pragma once

#include <string>

namespace ddp::launcher {

/// One line of JSON, draft 7: the one that language servers know.
std::string job_file_schema();

}  // namespace ddp::launcher
