/* SPDX-License-Identifier: MIT */
/*
 * constants.c - the headers' numbers for bindings of other languages, which cannot read the
 * headers: so they can check theirs at run time. constants.awk makes the entries from the headers.
 */
#include <rdmad/rdmad.h>
#include <string.h>

struct entry {
    const char *name;
    int64_t value;
};

static const struct entry constants[] = {
#define CONSTANT(name) {#name, (int64_t)(name)},
#define STRUCT(name)
#include "constants.inc"
#undef CONSTANT
#undef STRUCT
};

static const struct entry structs[] = {
#define CONSTANT(name)
#define STRUCT(name) {#name, (int64_t)sizeof(struct name)},
#include "constants.inc"
};

static int64_t constant_find(const struct entry *entries, size_t count, const char *name,
                             int64_t none) {
    for (size_t i = 0; name && i < count; i++) {
        if (strcmp(entries[i].name, name) == 0)
            return entries[i].value;
    }
    return none;
}

int64_t rdmad_constant(const char *name) {
    return constant_find(constants, sizeof(constants) / sizeof(*constants), name, INT64_MIN);
}

size_t rdmad_struct_size(const char *name) {
    return (size_t)constant_find(structs, sizeof(structs) / sizeof(*structs), name, 0);
}
