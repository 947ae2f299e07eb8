/* SPDX-License-Identifier: MIT */
/*
 * contents.c - see contents.h.
 */
#include "rdmactl/contents.h"
#include "rdmactl/cli.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SUMS_MAX (256u << 20) /* of what `share` makes: 4 TiB */

static int no_memory(uint64_t bytes) {
    char size[CELL_MAX];
    return cli_fail("RDMAD_E_NOMEM", "there is no memory for %s that describe what is shared",
                    cli_human_bytes(size, (double)bytes));
}

static int learn_sums(struct contents *c, struct reading *r, const struct bundle_footer *f) {
    uint64_t bytes = bundle_pieces(f) * BUNDLE_SUM;
    uint8_t root[BUNDLE_SUM];
    if (bytes > SUMS_MAX)
        return cli_fail("RDMAD_E_LIMIT",
                        "the lease says that it has %" PRIu64 " bytes of checksums, and %u is the "
                        "limit: its owner has to share less, or in larger pieces",
                        bytes, SUMS_MAX);
    c->sums = malloc(bytes ? bytes : 1);
    if (!c->sums)
        return no_memory(bytes);
    int code = reading_copy(r, f->contents + f->list, c->sums, bytes);
    if (code)
        return code;
    bundle_root(f, c->sums, root);
    if (memcmp(root, f->root, sizeof(root)) != 0)
        return cli_fail("RDMAD_E_PROTOCOL",
                        "the lease's checksums are not those that its owner made: it is damaged");
    c->summed = true;
    c->bytes = f->contents;
    c->piece = f->piece;
    memcpy(c->root, root, sizeof(root));
    return EXIT_GOOD;
}

static int learn_tree(struct contents *c, struct reading *r, const struct bundle_footer *f,
                      uint32_t max_entries, unsigned max_depth) {
    uint8_t sum[BUNDLE_SUM];
    if (f->list > (uint64_t)max_entries * (TREE_RECORD + TREE_NAME_MAX))
        return cli_fail("RDMAD_E_LIMIT",
                        "the directory's list is longer than %u entries can be: --max-entries says "
                        "how many are taken",
                        max_entries);
    c->tree.list = malloc(f->list ? f->list : 1);
    if (!c->tree.list)
        return no_memory(f->list);
    c->tree.bytes = f->list;
    int code = reading_copy(r, f->contents, c->tree.list, f->list);
    if (code)
        return code;
    bundle_sum(c->tree.list, f->list, sum);
    if (memcmp(sum, f->list_sum, sizeof(sum)) != 0)
        return cli_fail("RDMAD_E_PROTOCOL",
                        "the directory's list is not the one that its owner made: it is damaged");
    const char *why = tree_judge(&c->tree, f->contents, max_entries, max_depth);
    return why ? cli_fail("RDMAD_E_PROTOCOL", "the directory's list is refused: %s", why)
               : EXIT_GOOD;
}

int contents_learn(struct contents *c, struct reading *r, uint64_t length, uint32_t max_entries,
                   unsigned max_depth) {
    struct bundle_footer f;
    uint8_t end[sizeof(f)];
    *c = (struct contents){.bytes = length, .piece = BUNDLE_PIECE};
    if (length < sizeof(f))
        return EXIT_GOOD;
    int code = reading_copy(r, length - sizeof(f), end, sizeof(f));
    if (code || !bundle_judge(end, length, &f))
        return code;
    c->directory = f.kind == BUNDLE_DIRECTORY;
    code = learn_sums(c, r, &f);
    if (!code && c->directory)
        code = learn_tree(c, r, &f, max_entries, max_depth);
    return code;
}

bool contents_match(const struct contents *c, uint64_t piece, const void *data, uint64_t size) {
    uint8_t sum[BUNDLE_SUM];
    bundle_sum(data, size, sum);
    return !memcmp(sum, c->sums + piece * BUNDLE_SUM, sizeof(sum));
}

void contents_free(struct contents *c) {
    free(c->sums);
    tree_free(&c->tree);
    c->sums = NULL;
}
