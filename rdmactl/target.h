/* SPDX-License-Identifier: MIT */
/*
 * target.h - where fetch puts what it reads: a file that appears whole or not at all, or a stream.
 *
 * A regular file that is there already is replaced: mode and owner are kept, and it must be
 * writable. A regular file is written under no name (O_TMPFILE) and gets its name at the end, so
 * whatever ends us early leaves nothing behind. Where the file system cannot do that, a temporary
 * name in the same directory is used, and removed unless we are killed. Devices, pipes and standard
 * output are written in order, as they come.
 */
#ifndef RDMACTL_TARGET_H
#define RDMACTL_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct target {
    int fd;
    bool stream;              /* no name to give at the end */
    char path[PATH_MAX];      /* the name to be */
    char temporary[PATH_MAX]; /* "": none */
};

/* file NULL: standard output. All return an exit code and report. */
int target_open(struct target *t, const char *file, uint64_t bytes);
int target_write(struct target *t, const void *data, uint64_t size);
int target_finish(struct target *t);   /* the file gets its name */
void target_discard(struct target *t); /* after an error; harmless after finish */

#endif
