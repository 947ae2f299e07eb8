/* SPDX-License-Identifier: MIT */
/*
 * bundle.h - what share puts under its lease, and fetch takes apart.
 *
 *     contents | list of a directory's entries | a checksum a piece | footer
 *
 * The contents of a file are its bytes; of a directory those of its files, one after the other, as
 * the list has them (tree.h). The contents are cut into pieces, each of which has a checksum, as
 * the list has; the footer has one over itself and all of these: its root. So whoever has the root,
 * and part of a file, knows which of it need not be read again, and at the end that all of it is
 * equal. The checksum is XXH3 (128 bits): against accidents, not a signature. Who reads a lease
 * trusts its owner for the bytes, and for the sums no more than that. Numbers are little-endian.
 *
 * A lease that some other program granted has no footer, and is read as it is.
 */
#ifndef RDMACTL_BUNDLE_H
#define RDMACTL_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUNDLE_SUM 16
#define BUNDLE_PIECE (256u << 10)   /* what share makes */
#define BUNDLE_PIECE_MIN (4u << 10) /* what fetch takes: a power of two */
#define BUNDLE_PIECE_MAX (4u << 20)

enum bundle_kind { BUNDLE_FILE = 0, BUNDLE_DIRECTORY = 1 };

struct bundle_footer {
    char magic[8];
    uint32_t version, kind;  /* enum bundle_kind */
    uint64_t contents, list; /* bytes */
    uint32_t piece;          /* bytes that have one checksum; the last piece may be shorter */
    uint32_t reserved;
    uint8_t list_sum[BUNDLE_SUM];
    uint8_t root[BUNDLE_SUM];
};

/* A footer for that; its root is still missing. */
void bundle_init(struct bundle_footer *f, enum bundle_kind kind, uint64_t contents, uint64_t list);
/* Of everything, footer included; false: more than can be. */
bool bundle_length(const struct bundle_footer *f, uint64_t *length);
uint64_t bundle_pieces(const struct bundle_footer *f);
/* The footer of a lease of that length; false: it is none. */
bool bundle_judge(const void *bytes, uint64_t length, struct bundle_footer *out);

void bundle_sum(const void *data, size_t size, uint8_t sum[BUNDLE_SUM]);
/* The root of a footer with these sums. */
void bundle_root(const struct bundle_footer *f, const uint8_t *sums, uint8_t root[BUNDLE_SUM]);

/* In hexadecimal. */
#define BUNDLE_TEXT (2 * BUNDLE_SUM + 1)
const char *bundle_text(char text[BUNDLE_TEXT], const uint8_t sum[BUNDLE_SUM]);

#endif
