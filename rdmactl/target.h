/* SPDX-License-Identifier: MIT */
/*
 * target.h - where fetch puts what it reads: a file or a directory that appears whole or not at
 * all, or a stream.
 *
 * A regular file that is there already is replaced: mode and owner are kept, and it must be
 * writable. What replaces it is ours alone until it is whole: another owner could write into what
 * has been compared, and we could not go on with it later. A directory must not be there, or be
 * empty. Devices, pipes and standard output are written in order, as they come.
 *
 * What has a checksum is written beside its place, under its name and the first digits of the
 * checksum (FILE.0123456789abcdef.part), and gets its name at the end. Whatever ends us early
 * leaves that, and who fetches the same again finds what is there (target_get) and judges it. Only
 * what is ours and that nobody else can have put there counts: no links, no other owner. What has
 * none, or is not to be kept, or is just being fetched by somebody else, is written under no name
 * (O_TMPFILE); where the file system cannot do that, under a temporary one.
 */
#ifndef RDMACTL_TARGET_H
#define RDMACTL_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct tree;
struct tree_target;

struct target_terms {
    uint64_t bytes;
    const struct tree *tree; /* a directory; NULL: a file */
    const char *sum;         /* of what it will be, as text; NULL: nothing is kept or found */
    int signals;             /* signals_catch's; heard while a stream is not read */
};

struct target {
    int fd;
    bool stream;   /* no name to give at the end */
    bool resumed;  /* something is there of an earlier fetch */
    bool kept;     /* what there is outlives a failure, in temporary */
    bool replaces; /* a file is there already, which was so: */
    struct stat was;
    bool interrupted; /* of a stream: that is why it failed, and was not reported */
    int signals;
    size_t at_once;           /* to be written */
    char path[PATH_MAX];      /* the name to be */
    char temporary[PATH_MAX]; /* "": none */
    struct tree_target *tree;
};

/* file NULL: standard output. All that return int return an exit code and report. */
int target_open(struct target *t, const char *file, const struct target_terms *terms);
/* In order of offset, streams without gaps. */
int target_put(struct target *t, uint64_t offset, const void *data, uint64_t size);
/* What is there of an earlier fetch; false: not all of it. */
bool target_get(struct target *t, uint64_t offset, void *data, uint64_t size);
/* Before anything is written: is there room for so many more bytes where fd is? What is taken by
 * others later shows later. To allocate it all (fallocate) would cost half as much as to write it.
 */
int target_room(const struct target *t, int fd, uint64_t bytes);
mode_t target_mask(void);            /* umask, which can only be had by setting it: one thread */
int target_finish(struct target *t); /* it gets its name */
/* After an error; harmless after finish. keep: what there is may be of use; else it is removed. */
void target_discard(struct target *t, bool keep);

#endif
