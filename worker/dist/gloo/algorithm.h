// Replaces gloo's header, which no wheel ships: ProcessGroupGloo.hpp includes it and needs nothing
// from it.
#pragma once
