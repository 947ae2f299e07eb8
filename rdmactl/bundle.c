/* SPDX-License-Identifier: MIT */
/*
 * bundle.c - see bundle.h.
 */
#include "rdmactl/bundle.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAGIC "rdmadsum"
#define VERSION 1u

static_assert(sizeof(struct bundle_footer) == 72, "the footer has no holes");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "rdmad is for little-endian machines"
#endif

void bundle_init(struct bundle_footer *f, enum bundle_kind kind, uint64_t contents, uint64_t list) {
    *f = (struct bundle_footer){.version = VERSION,
                                .kind = kind,
                                .contents = contents,
                                .list = list,
                                .piece = BUNDLE_PIECE};
    memcpy(f->magic, MAGIC, sizeof(f->magic));
}

uint64_t bundle_pieces(const struct bundle_footer *f) {
    return f->contents / f->piece + (f->contents % f->piece != 0);
}

bool bundle_length(const struct bundle_footer *f, uint64_t *length) {
    uint64_t bytes;
    return !__builtin_add_overflow(f->contents, f->list, &bytes) &&
           !__builtin_add_overflow(bytes, bundle_pieces(f) * BUNDLE_SUM, &bytes) &&
           !__builtin_add_overflow(bytes, sizeof(*f), length);
}

bool bundle_judge(const void *bytes, uint64_t length, struct bundle_footer *out) {
    uint64_t own;
    memcpy(out, bytes, sizeof(*out));
    return !memcmp(out->magic, MAGIC, sizeof(out->magic)) && out->version == VERSION &&
           out->kind <= BUNDLE_DIRECTORY && (out->kind == BUNDLE_DIRECTORY || !out->list) &&
           out->piece >= BUNDLE_PIECE_MIN && out->piece <= BUNDLE_PIECE_MAX &&
           !(out->piece & (out->piece - 1)) && !out->reserved && bundle_length(out, &own) &&
           own == length;
}

void bundle_sum(const void *data, size_t size, uint8_t sum[BUNDLE_SUM]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
    memcpy(sum, canonical.digest, BUNDLE_SUM);
}

void bundle_root(const struct bundle_footer *f, const uint8_t *sums, uint8_t root[BUNDLE_SUM]) {
    struct bundle_footer bare = *f;
    XXH3_state_t state;
    XXH128_canonical_t canonical;
    memset(bare.root, 0, sizeof(bare.root));
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &bare, sizeof(bare));
    XXH3_128bits_update(&state, sums, bundle_pieces(f) * BUNDLE_SUM);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(root, canonical.digest, BUNDLE_SUM);
}

const char *bundle_text(char text[BUNDLE_TEXT], const uint8_t sum[BUNDLE_SUM]) {
    for (unsigned i = 0; i < BUNDLE_SUM; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
    return text;
}
