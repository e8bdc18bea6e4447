// A module of the system's name service that knows one name, by-module.test: nss(5).
#include <netdb.h>
#include <nss.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

extern "C" nss_status _nss_ddptest_gethostbyname2_r(const char* name,
                                                    int family,
                                                    hostent* found,
                                                    char* buffer,
                                                    std::size_t size,
                                                    int* error,
                                                    int* resolver_error) {
  struct Room {
    char* addresses[2];
    char* aliases[1];
    char address[4];
    char name[16];
  };
  if (family != AF_INET || std::strcmp(name, "by-module.test") != 0) {
    *error = ENOENT;
    *resolver_error = HOST_NOT_FOUND;
    return NSS_STATUS_NOTFOUND;
  }
  if (size < sizeof(Room) + alignof(Room)) {
    *error = ERANGE;
    *resolver_error = NETDB_INTERNAL;
    return NSS_STATUS_TRYAGAIN;
  }
  auto* const room = reinterpret_cast<Room*>(buffer);
  *room = {{room->address, nullptr}, {nullptr}, {10, 77, 0, 1}, "by-module.test"};
  *found = {room->name, room->aliases, AF_INET, 4, room->addresses};
  return NSS_STATUS_SUCCESS;
}
