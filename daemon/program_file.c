/* SPDX-License-Identifier: MIT */
/*
 * program_file.c - the file and each directory above it belong to root or to us, and others cannot
 * write there. In a directory with the sticky bit (/tmp) others can write, but not replace what is
 * not theirs.
 */
#include "daemon/program_file.h"
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

static int program_file_refuse(const char *path, const char *why, struct error *err) {
    return error_set(err, RDMAD_E_PERM, "no upgrade: %.160s %s, so this rdmad goes on", path, why);
}

static int check_one(const char *path, bool is_file, struct error *err) {
    struct stat st;
    if (lstat(path, &st))
        return program_file_refuse(path, strerror(errno), err);
    if (is_file && !S_ISREG(st.st_mode))
        return program_file_refuse(path, "is no file", err);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return program_file_refuse(path, "belongs to another user than root and rdmad's", err);
    bool sticky = !is_file && st.st_mode & S_ISVTX;
    if (st.st_mode & OTHERS_WRITE && !sticky)
        return program_file_refuse(path, "can be written to by others", err);
    return 0;
}

int program_file_check(const char *path, char *out, struct error *err) {
    char dir[PATH_MAX];
    if (path[0] != '/')
        return program_file_refuse(path, "is no absolute path", err);
    if (!realpath(path, out))
        return program_file_refuse(path, strerror(errno), err);
    int rc = check_one(out, true, err);
    strcpy(dir, out);
    for (char *slash; !rc && (slash = strrchr(dir, '/'));) {
        *slash = '\0';
        rc = check_one(slash == dir ? "/" : dir, false, err);
    }
    return rc;
}
