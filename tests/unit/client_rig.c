/* SPDX-License-Identifier: MIT */
#include "libclient/ring/submit.h" /* first: its parameters are named as our globals */

#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <unistd.h>

struct fake_daemon fake;
rdmad_session *s;
rdmad_pool *pool;
rdmad_lease *lease;
rdmad_ring *ring;
char *memory;

static pthread_t player;
static rig_player *how;
static bool playing, stop;
static unsigned buffers;

void rig_set_up(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;

    fake_start(&fake);
    o.runtime_dir = fake.dir;
    o.spin_us = 20;
    o.ring_entries = 8;
    cr_assert_eq(rdmad_open(&o, &s), 0, "%s", rdmad_last_error(NULL));
    cr_assert_eq(rdmad_pool_create(s, 1 << 16, 0, &pool), 0);
    memory = rdmad_pool_base(pool);
    cr_assert_eq(rdmad_lease_attach(s, "name", 0, &lease), 0);
    cr_assert_eq(rdmad_ring_create(s, RIG_ENTRIES, &ring), 0);
}

void rig_tear_down(void) {
    if (playing) {
        __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
        pthread_join(player, NULL);
    }
    rdmad_close(s);
    fake_stop(&fake);
}

void rig_daemon_follows(void) {
    fake_go(&fake);
    while (rdmad_is_open(s))
        usleep(1000); /* what is begun before is the one's that goes */
    usleep(100000);
    fake_come_back(&fake);
}

void rig_expect_event(uint32_t type) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    cr_assert_eq(rdmad_next_event(s, 20000, &e), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(e.type, type, "%u: %s", e.type, e.text);
}

struct rdmad_sqe *rig_prep_write(uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    char *buffer = memory + (buffers++ % 1024) * 64;

    cr_assert_not_null(sqe);
    cr_assert_eq(rdmad_prep_write(ring, sqe, lease, 8, buffer, 64, user_data), 0, "%s",
                 rdmad_last_error(s));
    return sqe;
}

void rig_submit_write(uint64_t user_data) {
    rig_prep_write(user_data);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

struct rdmad_sqe rig_take(void) {
    struct rdmad_sqe sqe;

    cr_assert(fake_ring_take(&fake.rings[0], &sqe));
    return sqe;
}

static void complete(struct fake_ring *r, const struct rdmad_sqe *sqe, int status) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data,
                            .bytes = status ? 0 : sqe->length,
                            .status = status,
                            .outcome = status ? RDMAD_FAILED_UNTOUCHED : RDMAD_DONE,
                            .opcode = sqe->opcode};

    fake_ring_complete(r, &cqe);
}

void rig_complete(const struct rdmad_sqe *sqe, int status) {
    complete(&fake.rings[0], sqe, status);
}

struct rdmad_cqe rig_reap(void) {
    const struct rdmad_cqe *cqe;
    struct rdmad_cqe copy;

    cr_assert_eq(rdmad_ring_wait(ring, 10000, &cqe), 0, "%s", rdmad_last_error(s));
    copy = *cqe;
    rdmad_ring_seen(ring, cqe);
    return copy;
}

void rig_expect_nothing(void) {
    const struct rdmad_cqe *cqe;

    cr_assert_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN);
}

unsigned rig_free_entries(void) {
    unsigned n = 0;

    while (rdmad_ring_reserve(ring))
        n++;
    rdmad_ring_take_back(ring, n);
    return n;
}

static void *play_all(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        unsigned rings = __atomic_load_n(&fake.nrings, __ATOMIC_ACQUIRE);
        for (unsigned i = 0; i < rings; i++) {
            struct rdmad_sqe sqe;
            if (!fake_ring_has(&fake.rings[i]) || !fake_ring_take(&fake.rings[i], &sqe))
                continue;
            if (!how || !how(&fake.rings[i], &sqe))
                complete(&fake.rings[i], &sqe, 0);
        }
        usleep(20);
    }
    return NULL;
}

void rig_play(rig_player *play) {
    how = play;
    playing = true;
    cr_assert_eq(pthread_create(&player, NULL, play_all, NULL), 0);
}
