/* SPDX-License-Identifier: MIT */
#include "common/runtime_dir.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool directory_is_own(const char *directory) {
    struct stat st;
    return !lstat(directory, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & (S_IWGRP | S_IWOTH));
}

const char *rdmad_user_dir(char buf[RDMAD_RUNTIME_DIR_MAX]) {
    const char *run = secure_getenv("XDG_RUNTIME_DIR");
    if (!run || run[0] != '/' || !directory_is_own(run))
        return NULL;
    int n = snprintf(buf, RDMAD_RUNTIME_DIR_MAX, "%s/rdmad", run);
    return n > 0 && n < (int)RDMAD_RUNTIME_DIR_MAX ? buf : NULL;
}

static bool has_socket(const char *directory, const char *name) {
    char path[RDMAD_RUNTIME_DIR_MAX + 32];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return !lstat(path, &st) || errno != ENOENT; /* one that may not be seen is there */
}

const char *rdmad_default_dir(const char *name, char buf[RDMAD_RUNTIME_DIR_MAX]) {
    if (!has_socket(RDMAD_RUNTIME_DIR, name) && rdmad_user_dir(buf) && directory_is_own(buf) &&
        has_socket(buf, name))
        return buf;
    return RDMAD_RUNTIME_DIR;
}
