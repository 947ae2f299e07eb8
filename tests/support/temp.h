/* SPDX-License-Identifier: MIT */
/*
 * temp.h - a directory that is gone after the test, whatever ends that.
 */
#ifndef RDMAD_TEST_TEMP_H
#define RDMAD_TEST_TEMP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes one called name and six letters, in $TMPDIR, which tests/run.sh removes; in /tmp where that
 * is none, or longer than longest: paths of sockets are short. dir has room for all that. False:
 * errno. */
static inline bool temp_dir(char *dir, size_t size, size_t longest, const char *name) {
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, size, "%s/%s.XXXXXX", tmp && strlen(tmp) < longest ? tmp : "/tmp", name);
    return mkdtemp(dir);
}

#endif
