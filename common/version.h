// The release of both programs and of the library. CMakeLists.txt reads it here, so that a new
// version recompiles only its users.
#pragma once

#define DDP_VERSION "0.2.0"
