/* SPDX-License-Identifier: MIT */
/*
 * test_transfers.c - every byte arrives where it should and no other changes: sizes around every
 * bound that something on the way has (the inline size, the MTU, one work request, the largest
 * message of the port, the whole pool), from and to addresses that are aligned to nothing.
 *
 * Over whatever fabric the suite runs with. Over verbs in several settings, which change what a
 * transfer is cut into and how the lease is held; over tcp they mean nothing, and one is enough.
 */
#include "tests/support/client.h"

#include <rdmad/rdmad.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 20 << 20, MIB = 1 << 20 };

struct scene {
    struct tdaemon *a, *b;
    rdmad_session *owner, *lessee;
    uint8_t *theirs, *mine;   /* the pools */
    uint8_t *theirs_, *mine_; /* what must be in them */
    rdmad_lease *lease;       /* on all of theirs */
};

/* New bytes in a range of a pool, and in what it must hold. */
static void fill(uint8_t *memory, uint8_t *copy, size_t at, size_t length) {
    static uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < length; i += 8) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t word = x ^ x >> 32;
        memcpy(memory + at + i, &word, length - i < 8 ? length - i : 8);
    }
    memcpy(copy + at, memory + at, length);
}

static rdmad_session *open_at(const struct tdaemon *d, uint8_t **memory, uint8_t **copy) {
    rdmad_session *s = client_open(d);
    rdmad_pool *pool;
    CHECK(!rdmad_pool_create(s, POOL, 0, &pool), "%s", rdmad_last_error(s));
    *memory = rdmad_pool_base(pool);
    *copy = malloc(POOL);
    CHECK(*copy, "out of memory");
    return s;
}

static void scene_open(struct scene *s, const char *config) {
    char path[128], uri[RDMAD_URI_MAX + 1];
    rdmad_lease *own;
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/transfers.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(config, f) >= 0 && fclose(f) == 0, "%s", path);
    const char *const args[] = {"--config", path, NULL};
    s->a = tdaemon_start("127.0.0.1", args);
    s->b = tdaemon_start("127.0.0.2", args);
    s->owner = open_at(s->a, &s->theirs, &s->theirs_);
    s->lessee = open_at(s->b, &s->mine, &s->mine_);
    CHECK(!rdmad_lease_grant(s->owner, s->theirs, POOL, NULL, &own), "%s",
          rdmad_last_error(s->owner));
    snprintf(uri, sizeof(uri), "%s", rdmad_lease_uri(own));
    CHECK(!rdmad_lease_attach(s->lessee, uri, 0, &s->lease), "%s", rdmad_last_error(s->lessee));
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(s->lease, &info);
    CHECK(strcmp(info.fabric, test_fabric()) == 0, "the link is of fabric %s", info.fabric);
    fill(s->theirs, s->theirs_, 0, POOL);
    fill(s->mine, s->mine_, 0, POOL);
}

static void scene_close(struct scene *s) {
    rdmad_close(s->lessee);
    rdmad_close(s->owner);
    free(s->theirs_);
    free(s->mine_);
    tdaemon_stop(s->b);
    tdaemon_stop(s->a);
}

static void expect_same(const uint8_t *is, const uint8_t *should, const char *whose, size_t size) {
    if (memcmp(is, should, POOL) == 0)
        return;
    size_t i = 0;
    while (is[i] == should[i])
        i++;
    CHECK(0, "size %zu: byte %zu of the %s pool is %u, not %u", size, i, whose, is[i], should[i]);
}

static void transfer(struct scene *s, bool write, size_t there, size_t here, size_t length) {
    int rc = write ? rdmad_write(s->lease, there, s->mine + here, length)
                   : rdmad_read(s->lease, there, s->mine + here, length);
    CHECK(!rc, "%s of %zu bytes at %zu, here at %zu: %s", write ? "write" : "read", length, there,
          here, rdmad_last_error(s->lessee));
    if (write)
        memcpy(s->theirs_ + there, s->mine_ + here, length);
    else
        memcpy(s->mine_ + here, s->theirs_ + there, length);
}

/* Both ways, aligned, at the very end, anywhere; then the whole of both pools is what it should be.
 */
static void all_ways(struct scene *s, size_t size) {
    size_t room = POOL - (size ? size : 1); /* nothing begins at the end of a pool */
    fill(s->mine, s->mine_, 0, size);
    transfer(s, true, 0, 0, size);
    fill(s->theirs, s->theirs_, room, size);
    transfer(s, false, room, room, size);
    size_t there = test_random() % (room + 1), here = test_random() % (room + 1);
    fill(s->mine, s->mine_, here, size);
    transfer(s, true, there, here, size);
    there = test_random() % (room + 1), here = test_random() % (room + 1);
    fill(s->theirs, s->theirs_, there, size);
    transfer(s, false, there, here, size);
    expect_same(s->theirs, s->theirs_, "owner's", size);
    expect_same(s->mine, s->mine_, "lessee's", size);
}

static void all_sizes_up_to(size_t largest, const char *config) {
    static const size_t sizes[] = {
        0,   1,       7,           8,       63,          64,           65,
        255, 1023,    4095,        4096,    4097,        65536,        MIB - 1,
        MIB, MIB + 1, 3 * MIB + 5, 8 * MIB, 8 * MIB + 1, 16 * MIB + 3, POOL};
    struct scene s;
    scene_open(&s, config);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= largest; i++)
        all_ways(&s, sizes[i]);
    scene_close(&s);
}

static void by_default(void) {
    all_sizes_up_to(POOL, "{}");
}

static void only_over_verbs(void) {
    if (strcmp(test_fabric(), "verbs") != 0)
        skip("it has settings of the verbs fabric");
}

static void in_messages_as_large_as_the_port_takes(void) {
    only_over_verbs();
    all_sizes_up_to(POOL, "{\"verbs\": {\"max_message_bytes\": 2147483648, \"inline_bytes\": 0}}");
}

static void over_many_queue_pairs_of_small_depth(void) {
    only_over_verbs();
    all_sizes_up_to(4 * MIB,
                    "{\"verbs\": {\"lanes\": 8, \"queue_depth\": 4, \"max_message_bytes\": 65536,"
                    " \"inline_bytes\": 400, \"signal_every\": 1}}");
}

static void through_memory_windows(void) {
    only_over_verbs();
    all_sizes_up_to(4 * MIB, "{\"verbs\": {\"windows\": \"windows\", \"lanes\": 2}}");
}

static void connected_by_rdma_cm(void) {
    only_over_verbs();
    all_sizes_up_to(4 * MIB, "{\"verbs\": {\"connect\": \"cm\", \"mtu\": 1024}}");
}

TEST_MAIN(CASE(by_default), CASE(in_messages_as_large_as_the_port_takes),
          CASE(over_many_queue_pairs_of_small_depth), CASE(through_memory_windows),
          CASE(connected_by_rdma_cm))
