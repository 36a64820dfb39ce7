/* Preloaded into a server: each flush to the disk takes 2 ms more, as on a usual disk of a cloud. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

typedef int (*flush)(int);

static int slowed(const char *name, int file)
{
    usleep(2000);
    return ((flush)dlsym(RTLD_NEXT, name))(file);
}

int fsync(int file) { return slowed("fsync", file); }
int fdatasync(int file) { return slowed("fdatasync", file); }
