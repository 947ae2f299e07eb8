/* SPDX-License-Identifier: MIT */
/*
 * audit_file.h - the file to which lines of the audit are appended.
 *
 * A line is one write(2). If the disk took only a part of one, the next begins on a line of its
 * own. Not thread-safe; any of these may take as long as the disk does.
 */
#ifndef RDMAD_BASE_AUDIT_FILE_H
#define RDMAD_BASE_AUDIT_FILE_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <stddef.h>

struct audit_file {
    int fd;    /* -1: there is none */
    bool torn; /* it ends in the middle of a line */
};

/* Opens path ("": closes, and has none), made with mode 0600 if it is not there. It must be a
 * regular file and no link, ours or root's, and not writable by others. On failure the one that was
 * open stays: RDMAD_E_CONFIG, or RDMAD_E_SYSTEM for what may pass, as a full disk. */
int audit_file_open(struct audit_file *f, const char *path, struct error *err);
/* Whether it could be opened; makes nothing. */
int audit_file_look(const char *path, struct error *err);
/* Whether the whole line was written, or there is no file; errno if it was not. */
bool audit_file_append(struct audit_file *f, const char *line, size_t size);
void audit_file_close(struct audit_file *f);

#endif
