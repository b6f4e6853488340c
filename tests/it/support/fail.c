/* Has calls of the C library fail, for as long as a file says so: `LD_PRELOAD` it.
 *
 * The file that FAIL_FILE names holds the name of a call and an error number; while it is there, that call fails so
 * below the folder FAIL_BELOW. Standard output, the network and everything elsewhere are left alone.
 *
 * With `kill N` the process ends right before the Nth call that changes anything there, and with `kill-group N` all of
 * its process group does. With `hold 0` no flush there ends while the file says so, and with `clock N` the time of day
 * is N seconds less.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* What is to happen, and the number beside it. */
static int asked(char wanted[32], int *number) {
    const char *control = getenv("FAIL_FILE");
    if (!control) return 0;
    /* Not by open(2), which is one of the calls. */
    int file = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    char text[64] = {0};
    ssize_t len = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    return len > 0 && sscanf(text, "%31s %d", wanted, number) == 2;
}

static int fails(const char *call, const char *path) {
    const char *below = getenv("FAIL_BELOW");
    char wanted[32] = {0};
    int number = 0;
    if (!below || (path && strncmp(path, below, strlen(below)) != 0) || !asked(wanted, &number)) return 0;
    while (strcmp(call, "flush") == 0 && strcmp(wanted, "hold") == 0) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
        if (!asked(wanted, &number)) return 0;
    }
    int group = strcmp(wanted, "kill-group") == 0;
    if (group || strcmp(wanted, "kill") == 0) {
        static atomic_int count;
        int changes = strcmp(call, "read") != 0 && strcmp(call, "open") != 0;
        if (changes && atomic_fetch_add(&count, 1) + 1 == number) kill(group ? 0 : getpid(), SIGKILL);
        return 0;
    }
    if (strcmp(wanted, call) != 0) return 0;
    errno = number;
    return 1;
}

static int fails_at(const char *call, int file) {
    char link[64], path[PATH_MAX] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1) <= 0) return 0;
    return fails(call, path);
}

int fsync(int file) {
    REAL(fsync);
    return fails_at("flush", file) ? -1 : real(file);
}

int fdatasync(int file) {
    REAL(fdatasync);
    return fails_at("flush", file) ? -1 : real(file);
}

ssize_t write(int file, const void *bytes, size_t len) {
    REAL(write);
    return fails_at("write", file) ? -1 : real(file, bytes, len);
}

ssize_t pwrite64(int file, const void *bytes, size_t len, off64_t at) {
    REAL(pwrite64);
    return fails_at("write", file) ? -1 : real(file, bytes, len, at);
}

ssize_t read(int file, void *bytes, size_t len) {
    REAL(read);
    return fails_at("read", file) ? -1 : real(file, bytes, len);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (fails("open", path) || ((flags & O_CREAT) && fails("create", path))) return -1;
    return real(path, flags, mode);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return fails("rename", from) ? -1 : real(from, to);
}

int unlink(const char *path) {
    REAL(unlink);
    return fails("unlink", path) ? -1 : real(path);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    REAL(linkat);
    return fails("link", to) ? -1 : real(from_folder, from, to_folder, to, flags);
}

int link(const char *from, const char *to) {
    REAL(link);
    return fails("link", to) ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return fails("mkdir", path) ? -1 : real(path, mode);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    char wanted[32] = {0};
    int number = 0;
    if (result == 0 && clock == CLOCK_REALTIME && asked(wanted, &number) && strcmp(wanted, "clock") == 0) {
        now->tv_sec -= number;
    }
    return result;
}
