/* SPDX-License-Identifier: MIT */
/*
 * Threads at one map of holds, for ThreadSanitizer: who holds a range writes into its bytes, or
 * reads them, as an op would. Two that hold the same byte show as a data race, and as wrong
 * contents without the sanitizer; a hold that is not given up shows at the end.
 *
 * Then threads that lock and unlock by the public calls, some of which wait; threads whose ops are
 * refused, each of which looks through the others' rings for the holder; and threads whose buffers
 * come and go in guard mode.
 */
#include "tests/unit/fake_daemon.h"

#include "libclient/ring/ring.h"
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4u
#define ROUNDS 100000u
#define LOCKS 10000u
#define OPS 20000u
#define GUARDED 1500u
#define SLOTS 8u
#define BYTES (UINT64_C(3) << 18)

static struct rdmad_hold_map *map;
static unsigned char *memory;
static unsigned held_by_all; /* one may be refused all the time, by another that lost its CPU */
static struct fake_daemon fake;
static rdmad_session *session;
static rdmad_pool *pool;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

/* The first, the last, and some bytes between. */
static void use(unsigned char *m, uint64_t length, bool writes, unsigned char me) {
    uint64_t step = length / 7 + 1;

    for (uint64_t i = 0; i < length; i += step) {
        if (writes)
            m[i] = me;
        else
            (void)*(volatile unsigned char *)&m[i];
    }
    if (writes)
        m[length - 1] = me;
    for (uint64_t i = 0; writes && i < length; i += step) {
        if (m[i] != me)
            fail("two held one byte");
    }
}

/* Small ranges near each other, and large ones over them. */
static uint64_t pick(unsigned *seed, uint64_t *length) {
    uint64_t offset;

    switch (rand_r(seed) % 16) {
    case 0:
        offset = (uint64_t)rand_r(seed) % 3 << 18;
        *length = UINT64_C(1) << 18;
        return offset;
    case 1:
        offset = (uint64_t)rand_r(seed) % (BYTES / 2);
        *length = 1 + (uint64_t)rand_r(seed) % (BYTES / 2);
        return offset;
    case 2:
        *length = 4096;
        return (uint64_t)rand_r(seed) % 64 * 4096;
    default:
        *length = 1 + (uint64_t)rand_r(seed) % 100;
        return (uint64_t)rand_r(seed) % 64 * 4096 + (uint64_t)rand_r(seed) % 200;
    }
}

static void *hold(void *arg) {
    unsigned char me = *(unsigned char *)arg;
    unsigned seed = me, held = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t length, offset = pick(&seed, &length);
        bool writes = rand_r(&seed) % 2;
        if (rdmad_hold_map_take(map, offset, length, writes))
            continue;
        use(memory + offset, length, writes, me);
        rdmad_hold_map_drop(map, offset, length, writes);
        held++;
    }
    __atomic_add_fetch(&held_by_all, held, __ATOMIC_RELAXED);
    return NULL;
}

static void *lock(void *arg) {
    unsigned char me = *(unsigned char *)arg;
    unsigned char *base = rdmad_pool_base(pool);
    unsigned seed = me;

    for (unsigned i = 0; i < LOCKS; i++) {
        unsigned offset = (unsigned)rand_r(&seed) % 128, length = 1 + (unsigned)rand_r(&seed) % 128;
        bool writes = rand_r(&seed) % 2;
        int timeout_ms = (int)(i % 3) - 1;
        int rc = writes ? rdmad_buf_lock_write(pool, base + offset, length, timeout_ms)
                        : rdmad_buf_lock_read(pool, base + offset, length, timeout_ms);
        if (rc == RDMAD_E_TIMEOUT && timeout_ms >= 0)
            continue;
        if (rc)
            fail(rdmad_last_error(session));
        use(base + offset, length, writes, me);
        if (writes)
            rdmad_buf_unlock_write(pool, base + offset, length);
        else
            rdmad_buf_unlock_read(pool, base + offset, length);
    }
    return NULL;
}

static void *hold_by_ops(void *arg) {
    unsigned char me = *(unsigned char *)arg;
    char *base = rdmad_pool_base(pool);
    unsigned seed = me, refused = 0;
    rdmad_ring *ring;

    if (rdmad_ring_create(session, SLOTS, &ring))
        fail(rdmad_last_error(session));
    for (unsigned i = 0; i < OPS; i++) {
        unsigned offset = (unsigned)rand_r(&seed) % 512, length = 1 + (unsigned)rand_r(&seed) % 64;
        unsigned slot = (unsigned)rand_r(&seed) % SLOTS;
        bool writes = rand_r(&seed) % 4 == 0;
        int rc = rdmad_hold_op(&ring->holds, slot, pool, base + offset, length, writes,
                               writes ? RDMAD_OP_READ : RDMAD_OP_WRITE, me, i);
        if (rc == RDMAD_E_BUSY && strstr(rdmad_last_error(session), "they are held by"))
            refused++;
        else if (rc)
            fail(rdmad_last_error(session));
        rdmad_hold_end(&ring->holds, (unsigned)rand_r(&seed) % SLOTS);
    }
    if (refused == 0)
        fail("nothing was refused");
    rdmad_ring_destroy(ring);
    return NULL;
}

static void *come_and_go(void *arg) {
    unsigned seed = *(unsigned char *)arg;
    rdmad_ring *ring;

    if (rdmad_ring_create(session, SLOTS, &ring))
        fail(rdmad_last_error(session));
    for (unsigned i = 0; i < GUARDED; i++) {
        size_t size = 1 + (size_t)rand_r(&seed) % 9000;
        bool writes = rand_r(&seed) % 2;
        char *buffer = rdmad_alloc(pool, size);
        if (!buffer ||
            rdmad_hold_op(&ring->holds, 0, pool, buffer, size, writes, RDMAD_OP_WRITE, 1, i))
            fail(rdmad_last_error(session));
        if (i % 3)
            rdmad_hold_end(&ring->holds, 0);
        if (i % 3)
            memset(buffer, 1, size); /* is its own again */
        rdmad_free(pool, buffer);
        rdmad_hold_end(&ring->holds, 0);
    }
    rdmad_ring_destroy(ring);
    return NULL;
}

static void run(void *(*body)(void *)) {
    pthread_t thread[THREADS];
    unsigned char number[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        number[i] = (unsigned char)(i + 1);
        pthread_create(&thread[i], NULL, body, &number[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void with_a_session(size_t bytes, void *(*first)(void *), void *(*second)(void *)) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;

    memset(&fake, 0, sizeof(fake));
    fake_start(&fake);
    o.runtime_dir = fake.dir;
    if (rdmad_open(&o, &session) || rdmad_pool_create(session, bytes, 0, &pool))
        fail(rdmad_last_error(NULL));
    run(first);
    if (second)
        run(second);
    if (rdmad_pool_destroy(pool))
        fail(rdmad_last_error(session));
    rdmad_close(session);
    fake_stop(&fake);
}

int main(void) {
    map = rdmad_hold_map_new(BYTES);
    memory = calloc(1, BYTES);
    run(hold);
    if (held_by_all < ROUNDS / 10)
        fail("nearly everything was refused");
    if (rdmad_hold_map_take(map, 0, BYTES, true))
        fail("something stayed held");
    rdmad_hold_map_free(map);
    free(memory);

    with_a_session(4096, lock, hold_by_ops);
    setenv("RDMAD_GUARD", "1", 1);
    with_a_session(1 << 20, come_and_go, NULL);
    return 0;
}
