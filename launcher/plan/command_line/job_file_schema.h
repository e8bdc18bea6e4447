// The JSON Schema of job files, derived from the table of keys. Editors with a YAML language server
// use it to complete keys, explain them, and mark errors. Rules between keys are not in it:
// --dry-run and --check show those.
#pragma once

#include <string>

namespace ddp::launcher {

/// One line of JSON Schema draft 7, which language servers know.
std::string job_file_schema();

}  // namespace ddp::launcher
