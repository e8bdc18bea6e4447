// Where the programs of this build lie. Variables of one source, so that no other object file holds
// a path of this checkout and ccache can give it to another one.
#pragma once

extern const char* const DDP_LAUNCH;
/// A program that a library can be laid below (LD_PRELOAD): ddp-launch itself loads none.
extern const char* const DDP_DYNAMIC_LAUNCH;
extern const char* const DDP_FAKE_WORKER;
