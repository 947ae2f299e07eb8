/* SPDX-License-Identifier: MIT */
/*
 * op_crowd.c - users with many sessions.
 */
#include "tests/unit/op_crowd.h"
#include <criterion/criterion.h>
#include <stdlib.h>

struct rig rig;
struct rig_remote remote;
struct crowd alice, bob;
uint8_t far[BYTES];
static uint8_t near[BYTES];
static bool are_tenants;

void crowds_are_tenants(void) {
    are_tenants = true;
}

struct user_id crowd_user(uid_t uid) {
    return are_tenants ? (struct user_id){.uid = ALICE, .tenant = uid == BOB ? 2 : 1}
                       : (struct user_id){.uid = uid};
}

void crowds_up(unsigned workers) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.workers = workers;
    settings.max_session_ops = 4096;
    settings.max_uid_ops = settings.max_ops = 1u << 20;
    settings.default_timeout_ns = settings.max_timeout_ns = 3600 * NSEC_PER_SEC;
    rig_up(&rig, &settings, 5);
    sim_script()->max_message = BYTES;
    rig_remote_up(&rig, &remote, far, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER);
}

static struct plane_share told[2]; /* alice's and bob's, for when they come */

void crowd_up(struct crowd *crowd, uid_t uid, unsigned sessions, unsigned rings) {
    *crowd = (struct crowd){.of = calloc(sessions, sizeof(struct source)),
                            .sessions = sessions,
                            .audit = calloc(1, sizeof(struct fabric_audit))};
    rig.uid = crowd_user(uid).uid;
    rig.tenant = crowd_user(uid).tenant;
    for (unsigned i = 0; i < sessions; i++) {
        struct source *s = &crowd->of[i];
        rig_client_up(&rig, &s->c, DEPTH, DEPTH, BYTES);
        rig_lease_local(&s->c, LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER,
                        crowd->audit);
        if (rig.settings.workers == 1)
            rig_lease(&s->c, &remote, REMOTE, RIG_LEASE, RDMAD_RIGHTS_ALL);
        for (; s->rings + 1 < rings; s->rings++)
            rig_ring_up(&s->c, &s->ring[s->rings], DEPTH, DEPTH);
    }
    if (told[uid == BOB].weight)
        plane_user_share(rig.plane[HERE], crowd_user(uid), &told[uid == BOB]);
}

void crowd_does(struct crowd *crowd, uint8_t opcode, uint64_t lease, uint64_t size) {
    crowd->opcode = opcode;
    crowd->lease = lease;
    crowd->size[0] = size;
    crowd->sizes = 1;
}

void crowd_down(struct crowd *crowd) {
    for (unsigned i = 0; i < crowd->sessions; i++) {
        struct source *s = &crowd->of[i];
        rig_client_down(&s->c);
        for (unsigned k = 0; k < s->rings; k++)
            rig_ring_free(&s->ring[k]);
    }
    free(crowd->of);
    free(crowd->audit);
}

void crowds_down(void) {
    crowd_down(&alice);
    crowd_down(&bob);
    rig_remote_down(&rig, &remote);
    cr_assert_eq(rig.violated, 0);
    rig_down(&rig);
}

static void fill(const struct crowd *crowd, struct rig_client *ring) {
    struct rdmad_cqe cqe;
    while (rig_take(ring, &cqe))
        cr_assert_eq(cqe.status, 0);
    const unsigned most = crowd->at_once ? crowd->at_once : DEPTH;
    while (!crowd->stopped && ring->sq_tail - ring->cq_head < most) {
        struct rdmad_sqe sqe = {.opcode = crowd->opcode,
                                .pool = RIG_HANDLE(0),
                                .lease = crowd->lease,
                                .length = crowd->size[ring->sq_tail % crowd->sizes]};
        if (crowd->opcode == RDMAD_OP_NOP)
            sqe = (struct rdmad_sqe){.opcode = RDMAD_OP_NOP};
        rig_put(ring, &sqe);
    }
}

void crowd_fill(const struct crowd *crowd) {
    for (unsigned i = 0; i < crowd->sessions; i++) {
        fill(crowd, &crowd->of[i].c);
        for (unsigned k = 0; k < crowd->of[i].rings; k++)
            fill(crowd, &crowd->of[i].ring[k]);
    }
}

void saturate(unsigned turns) {
    for (unsigned n = 0; n < turns; n++) {
        crowd_fill(&alice);
        crowd_fill(&bob);
        unsigned work = 0;
        for (unsigned i = 0; i < rig.settings.workers; i++)
            work += worker_turn(&rig.plane[HERE]->worker[i], sim_now());
        work += worker_turn(&rig.plane[THERE]->worker[0], sim_now());
        sim_advance(work ? 100 : 1000);
    }
}

struct done session_done(const struct source *s) {
    const struct plane_session_stats *stats = plane_session_stats(s->c.session);
    return (struct done){(double)stats->ops, (double)(stats->bytes_written + stats->bytes_read)};
}

struct done crowd_done(const struct crowd *crowd) {
    struct done sum = {0, 0};
    for (unsigned i = 0; i < crowd->sessions; i++) {
        struct done one = session_done(&crowd->of[i]);
        sum.ops += one.ops;
        sum.bytes += one.bytes;
    }
    if (crowd->lease == LOCAL)
        sum.bytes = (double)(crowd->audit->bytes_written + crowd->audit->bytes_read);
    return sum;
}

void set_share(uid_t uid, uint32_t weight, int priority, uint64_t bytes, uint64_t ops) {
    struct plane_share share = {
        .weight = weight, .priority = priority, .bytes_per_second = bytes, .ops_per_second = ops};
    told[uid == BOB] = share;
    cr_assert_eq(plane_user_share(rig.plane[HERE], crowd_user(uid), &share), 0);
}

void forget_share(uid_t uid) {
    told[uid == BOB].weight = 0;
}

struct done ratio_of(unsigned turns) {
    turns = RIG_COUNT(turns);
    saturate(turns / 4);
    struct done a = crowd_done(&alice), b = crowd_done(&bob);
    saturate(turns);
    struct done x = crowd_done(&alice), y = crowd_done(&bob);
    cr_assert(x.ops > a.ops && y.ops > b.ops, "somebody got nothing");
    return (struct done){(x.ops - a.ops) / (y.ops - b.ops),
                         (x.bytes - a.bytes) / (y.bytes - b.bytes)};
}

void is_about(double ratio, double wanted) {
    cr_assert(ratio > 0.95 * wanted && ratio < 1.05 * wanted, "%.3f instead of %.3f", ratio,
              wanted);
}

void both(unsigned of_alice, unsigned of_bob, uint8_t opcode, uint64_t lease, uint64_t size) {
    set_share(ALICE, 300, 0, 0, 0);
    crowd_up(&alice, ALICE, of_alice, 1);
    crowd_up(&bob, BOB, of_bob, 1);
    crowd_does(&alice, opcode, lease, size);
    crowd_does(&bob, opcode, lease, size);
}
