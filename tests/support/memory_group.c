/* SPDX-License-Identifier: MIT */
#include "tests/support/memory_group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of the group, by its name in version 2 and in version 1. */
static bool group_path(const char *name, const char *file, const char *file_v1, char *path,
                       size_t size) {
    char line[512], *at;
    bool found = false;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && !found && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if ((at = strstr(line, ":memory:"))) {
            snprintf(path, size, "/sys/fs/cgroup/memory%s/%s/%s", at + 8, name, file_v1);
            found = true;
        } else if (!strncmp(line, "0::", 3) &&
                   access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0) {
            snprintf(path, size, "/sys/fs/cgroup%s/%s/%s", line + 3, name, file);
            found = true;
        }
    }
    if (f)
        fclose(f);
    return found;
}

static FILE *group_open(const char *name, const char *file, const char *file_v1, const char *mode) {
    char path[700];
    return group_path(name, file, file_v1, path, sizeof(path)) ? fopen(path, mode) : NULL;
}

static bool group_write(const char *name, const char *file, const char *file_v1, uint64_t number) {
    FILE *f = group_open(name, file, file_v1, "we");
    if (!f)
        return false;
    bool ok = fprintf(f, "%llu\n", (unsigned long long)number) > 0;
    return fclose(f) == 0 && ok;
}

bool memory_group_make(const char *name) {
    char path[700];
    return group_path(name, "", "", path, sizeof(path)) &&
           (mkdir(path, 0755) == 0 || errno == EEXIST) && memory_group_charged(name) != UINT64_MAX;
}

bool memory_group_enter(const char *name, pid_t pid) {
    return memory_group_make(name) &&
           group_write(name, "cgroup.procs", "cgroup.procs", (uint64_t)pid);
}

uint64_t memory_group_charged(const char *name) {
    unsigned long bytes;
    FILE *f = group_open(name, "memory.current", "memory.usage_in_bytes", "re");
    if (!f)
        return UINT64_MAX;
    int n = fscanf(f, "%lu", &bytes);
    fclose(f);
    return n == 1 ? bytes : UINT64_MAX;
}

bool memory_group_limit(const char *name, uint64_t bytes) {
    bool ok = group_write(name, "memory.max", "memory.limit_in_bytes", bytes);
    /* Of version 1 that is memory and swap together. Some kernels count no swap. */
    (void)!(group_write(name, "memory.swap.max", "none", 0) ||
            group_write(name, "none", "memory.memsw.limit_in_bytes", bytes));
    return ok;
}

uint64_t memory_group_kills(const char *name) {
    char word[64];
    unsigned long number, kills = 0;
    FILE *f = group_open(name, "memory.events", "memory.oom_control", "re");
    while (f && fscanf(f, "%63s %lu", word, &number) == 2)
        if (!strcmp(word, "oom_kill"))
            kills = number;
    if (f)
        fclose(f);
    return kills;
}

void memory_group_remove(const char *name) {
    char path[700];
    if (group_path(name, "", "", path, sizeof(path)))
        rmdir(path);
}
