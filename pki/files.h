/* SPDX-License-Identifier: MIT */
/*
 * files.h - the files of the identity directory, read and written with care.
 *
 * A file belongs to root or to the directory's user. Nobody else may write it, and secrets nobody
 * else may read. It is regular, of at most PKI_FILE_MAX bytes, and opened without following a link
 * and without waiting.
 *
 * A file is written under another name, flushed, and put in its place: it is there as a whole or as
 * it was. It belongs to the directory's owner, whoever writes it.
 */
#ifndef RDMAD_PKI_FILES_H
#define RDMAD_PKI_FILES_H

#include "pki/dir.h"
#include <stdbool.h>

#define PKI_FILE_MAX 65536u /* bytes of one file */

enum pki_file_kind {
    PKI_PUBLIC, /* 0644: nobody else may write it */
    PKI_SECRET, /* 0600: nobody else may read it either */
};

/* Reads a whole file into a fresh buffer with a final NUL that is not counted; the caller frees it,
 * with pki_wipe if it is a secret. 0, PKI_NOT_THERE or RDMAD_E_*. */
int pki_file_read(const struct pki_dir *dir, const char *name, enum pki_file_kind kind, char **out,
                  size_t *size, struct pki_error *err);
/* Frees bytes after they are overwritten. NULL is allowed. */
void pki_wipe(char *bytes, size_t size);

/* Puts a file in its place, over one that is there. When it returns 0 that lasts over a crash. */
int pki_file_write(const struct pki_dir *dir, const char *name, enum pki_file_kind kind,
                   const void *bytes, size_t size, struct pki_error *err);
/* Only if there is none: RDMAD_E_EXISTS otherwise. */
int pki_file_create(const struct pki_dir *dir, const char *name, enum pki_file_kind kind,
                    const void *bytes, size_t size, struct pki_error *err);
/* 0, PKI_NOT_THERE or RDMAD_E_SYSTEM. Of two who remove the same file one gets 0. */
int pki_file_remove(const struct pki_dir *dir, const char *name, struct pki_error *err);
/* Gives a file that is there another name; it takes no place on the disk. The same; of two who move
 * the same file one gets 0. Whether that lasts over a crash pki_dir_flush says. */
int pki_file_move(const struct pki_dir *dir, const char *from, const char *to,
                  struct pki_error *err);
bool pki_file_there(const struct pki_dir *dir, const char *name);

#endif
