/* SPDX-License-Identifier: MIT */
/*
 * greet.c - a client of another version: greet RUNTIME_DIR has a session there, grants a lease of a
 * pool and writes by it. 0, or 1 and why not.
 */
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>

static int fail(const rdmad_session *s) {
    printf("%s\n", rdmad_last_error(s));
    return 1;
}

int main(int argc, char **argv) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *granted, *attached;
    char *memory;
    if (argc != 2)
        return 2;
    o.runtime_dir = argv[1];
    if (rdmad_open(&o, &s))
        return fail(NULL);
    if (rdmad_pool_create(s, 1 << 16, 0, &pool) || !(memory = rdmad_alloc(pool, 128)) ||
        rdmad_lease_grant(s, memory, 64, NULL, &granted) ||
        rdmad_lease_attach(s, rdmad_lease_uri(granted), 0, &attached))
        return fail(s);
    memory[64] = 1; /* the second half is ours */
    if (rdmad_read(attached, 0, memory + 64, 64))
        return fail(s);
    rdmad_close(s);
    return 0;
}
