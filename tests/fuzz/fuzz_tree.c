/* SPDX-License-Identifier: MIT */
/* A directory's list and a footer, as fetch takes them from a lease: what is taken leads nowhere
 * else, and lies in the contents. */
#include "rdmactl/bundle.h"
#include "rdmactl/tree.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const struct tree *t, const struct tree_entry *e) {
    char path[PATH_MAX];
    if (!tree_path(t, e, path, sizeof(path)))
        return;
    if (path[0] == '/')
        abort();
    char *rest = NULL;
    for (char *name = strtok_r(path, "/", &rest); name; name = strtok_r(NULL, "/", &rest))
        if (!strcmp(name, "..") || !strcmp(name, ".") || strlen(name) > TREE_NAME_MAX)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bundle_footer f;
    uint64_t contents, length;
    if (size >= sizeof(f) && bundle_judge(data + size - sizeof(f), size, &f) &&
        (!bundle_length(&f, &length) || length != size))
        abort();
    if (size < sizeof(contents))
        return 0;
    memcpy(&contents, data, sizeof(contents));
    struct tree t = {.list = malloc(size), .bytes = size - sizeof(contents)};
    if (!t.list)
        return 0;
    memcpy(t.list, data + sizeof(contents), t.bytes);
    if (!tree_judge(&t, contents, 1000, TREE_DEPTH))
        for (uint32_t i = 0; i < t.count; i++) {
            const struct tree_entry *e = &t.entry[i];
            if (e->offset > contents || e->size > contents - e->offset ||
                (e->parent != TREE_TOP && (e->parent >= i || !S_ISDIR(t.entry[e->parent].mode))))
                abort();
            check_path(&t, e);
        }
    tree_free(&t);
    return 0;
}
