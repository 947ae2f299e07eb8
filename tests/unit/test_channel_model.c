/* SPDX-License-Identifier: MIT */
/*
 * Two ends that do what they like, with links that break, against a model that only knows ids:
 * what a SEND came to at the sender is what the receiver saw of it, in order, each once. Also where
 * they lose their way to each other and get another, after which some are unknown.
 *
 *   RDMAD_CHANNEL_SEED, RDMAD_CHANNEL_MESSAGES: another run, a longer one.
 */
#include "tests/support/runner.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENDS 12u
#define RECVS 16u
#define BUFFER (1u << 20)
#define RECV_TAG (UINT64_C(1) << 32)
#define NEVER_TOLD 99

struct direction { /* what goes from one end to the other */
    unsigned next_id, last_seen;
    bool seen_any;
    uint8_t *at_sender, *at_receiver; /* by id: a status code's low byte, or NEVER_TOLD */
    unsigned over, untouched, unknown, small, done;
};

struct party {
    bool sending[SENDS], receiving[RECVS];
    bool hurried[SENDS]; /* by a deadline that it may miss */
    uint32_t id[SENDS], length[SENDS], room[RECVS];
    unsigned stalled; /* rounds in which it posts no receive */
};

static struct rig rig;
static struct chan c;
static struct direction way[2];
static struct party party[2];
static unsigned messages, ways; /* that were lost */

static uint64_t word_of(int end, uint32_t id, uint64_t i) {
    return (id * UINT64_C(0x9e3779b97f4a7c15)) ^ (i << 8) ^ (unsigned)end;
}

static uint8_t *send_buffer(int end, unsigned slot) {
    return c.end[end].client.pool + (size_t)slot * BUFFER;
}
static uint8_t *recv_buffer(int end, unsigned slot) {
    return c.end[end].client.pool + (size_t)(SENDS + slot) * BUFFER;
}

static void fill(int end, uint32_t id, uint8_t *at, uint64_t length) {
    for (uint64_t i = 0; i < length; i += 8) {
        uint64_t word = word_of(end, id, i);
        memcpy(at + i, &word, length - i < 8 ? length - i : 8);
    }
}

static void check(int end, uint32_t id, const uint8_t *at, uint64_t length) {
    for (uint64_t i = 0; i < length; i += 8) {
        uint64_t word = word_of(end, id, i);
        cr_assert(memcmp(at + i, &word, length - i < 8 ? length - i : 8) == 0,
                  "message %u differs at %lu", id, (unsigned long)i);
    }
}

static uint32_t some_length(void) {
    uint64_t kind = sim_random(1000);
    uint64_t bound = kind < 700 ? 300 : kind < 950 ? 2000 : kind < 997 ? 65536 : BUFFER + 1;
    return (uint32_t)sim_random(bound);
}

/* ---- what the ends do -------------------------------------------------------------------- */

static void send_some(int end) {
    struct party *p = &party[end];
    struct direction *d = &way[end];
    for (unsigned slot = 0; slot < SENDS && d->next_id < messages; slot++) {
        if (p->sending[slot] || sim_random(3) == 0)
            continue;
        uint32_t id = d->next_id++;
        p->sending[slot] = true;
        p->id[slot] = id;
        p->length[slot] = some_length();
        fill(end, id, send_buffer(end, slot), p->length[slot]);
        struct rdmad_sqe sqe =
            chan_sqe(RDMAD_OP_SEND, (size_t)slot * BUFFER, p->length[slot], slot);
        sqe.flags = RDMAD_SQE_IMM;
        sqe.imm = id;
        p->hurried[slot] = sim_random(300) == 0;
        sqe.timeout_ns = p->hurried[slot] ? 1 + sim_random(100000) : 50 * NSEC_PER_SEC;
        rig_put(&c.end[end].client, &sqe);
    }
}

static void post_some(int end) {
    struct party *p = &party[end];
    if (p->stalled) {
        p->stalled--;
        return;
    }
    for (unsigned slot = 0; slot < RECVS; slot++) {
        if (p->receiving[slot] || sim_random(3) == 0)
            continue;
        p->receiving[slot] = true;
        p->room[slot] = sim_random(50) == 0 ? 100 : BUFFER;
        chan_put(&c, end, RDMAD_OP_RECV, (size_t)(SENDS + slot) * BUFFER, p->room[slot],
                 RECV_TAG + slot);
    }
    if (sim_random(200) == 0)
        p->stalled = (unsigned)sim_random(100);
}

static void cancel_some(int end) {
    if (sim_random(100) == 0)
        chan_cancel(&c, end, sim_random(SENDS));
    if (sim_random(40) == 0)
        chan_cancel(&c, end, RECV_TAG + sim_random(RECVS));
}

/* Sometimes longer than a cancelled SEND waits to learn what became of it. */
static void break_some(void) {
    if (sim_random(400))
        return;
    unsigned ends = 1 + (unsigned)sim_random(3);
    uint64_t step_ns = sim_random(4) ? 3000 : CHANNEL_SETTLE_NS / 4;
    for (int end = A; end <= B; end++)
        if (ends & 1u << end)
            chan_break(&c, end);
    for (uint64_t n = sim_random(20); n > 0; n--)
        for (int end = A; end <= B; end++) {
            cancel_some(end);
            rig_step(&rig, sim_now() + step_ns);
        }
    for (int end = A; end <= B; end++)
        if (ends & 1u << end)
            chan_connect(&c, end);
}

/* ---- what they hear ---------------------------------------------------------------------- */

static void send_ended(int end, const struct rdmad_cqe *cqe) {
    struct party *p = &party[end];
    struct direction *d = &way[end];
    unsigned slot = (unsigned)cqe->user_data;
    cr_assert(slot < SENDS && p->sending[slot]);
    uint32_t id = p->id[slot];
    p->sending[slot] = false;
    cr_assert_eq(d->at_sender[id], NEVER_TOLD);
    d->over++;
    d->done += cqe->outcome == RDMAD_DONE;
    d->untouched += cqe->outcome == RDMAD_FAILED_UNTOUCHED;
    d->unknown += cqe->outcome == RDMAD_UNKNOWN;
    cr_assert_neq(cqe->outcome, RDMAD_FAILED_PARTIAL);
    cr_assert_eq(cqe->outcome == RDMAD_DONE, cqe->status == RDMAD_OK);
    /* Links that break are no reason; nor has anybody long to wait. */
    cr_assert(cqe->status == RDMAD_OK || cqe->status == RDMAD_E_TOO_SMALL ||
                  cqe->status == RDMAD_E_CANCELED ||
                  (cqe->status == RDMAD_E_PEER_LOST && cqe->outcome == RDMAD_UNKNOWN && ways) ||
                  (cqe->status == RDMAD_E_TIMEOUT && p->hurried[slot]),
              "message %u: %d", id, cqe->status);
    cr_assert_eq(cqe->bytes, cqe->status ? 0 : p->length[slot]);
    d->at_sender[id] = (uint8_t)(cqe->status == RDMAD_E_TOO_SMALL ? 10 : cqe->outcome);
    /* Nothing reads it any more: what the receiver got or gets is not this. */
    memset(send_buffer(end, slot), 0xee, p->length[slot]);
}

static void recv_ended(int end, const struct rdmad_cqe *cqe) {
    struct party *p = &party[end];
    struct direction *d = &way[!end];
    unsigned slot = (unsigned)(cqe->user_data - RECV_TAG);
    cr_assert(slot < RECVS && p->receiving[slot]);
    p->receiving[slot] = false;
    if (cqe->status == RDMAD_E_CANCELED) {
        memset(recv_buffer(end, slot), 0xdd, 64); /* ours again */
        return;
    }
    cr_assert(cqe->status == RDMAD_OK || cqe->status == RDMAD_E_TOO_SMALL, "%d", cqe->status);
    cr_assert(cqe->flags & RDMAD_CQE_IMM);
    uint32_t id = (uint32_t)cqe->imm;
    cr_assert(id < d->next_id && (!d->seen_any || id > d->last_seen), "%u after %u", id,
              d->last_seen);
    d->seen_any = true;
    d->last_seen = id;
    cr_assert_eq(d->at_receiver[id], NEVER_TOLD);
    d->at_receiver[id] = cqe->status ? 10 : RDMAD_DONE;
    if (cqe->status)
        cr_assert(cqe->bytes > p->room[slot]);
    else
        check(!end, id, recv_buffer(end, slot), cqe->bytes);
}

static bool hear(int end) {
    struct rdmad_cqe cqe;
    bool any = false;
    while (chan_take(&c, end, &cqe)) {
        any = true;
        if (cqe.opcode == RDMAD_OP_SEND)
            send_ended(end, &cqe);
        else if (cqe.opcode == RDMAD_OP_RECV)
            recv_ended(end, &cqe);
    }
    return any;
}

static void agree(const struct direction *d) {
    for (unsigned id = 0; id < messages; id++) {
        if (d->at_sender[id] == RDMAD_UNKNOWN)
            continue;
        uint8_t expected =
            d->at_sender[id] == RDMAD_FAILED_UNTOUCHED ? NEVER_TOLD : d->at_sender[id];
        cr_assert_eq(d->at_receiver[id], expected, "message %u: %u at the sender, %u here", id,
                     d->at_sender[id], d->at_receiver[id]);
    }
}

static void bounded(void) {
    for (int end = A; end <= B; end++) {
        const struct channels *all = chan_of(&c, end)->worker->channels;
        /* Of those given up the receiver's credits are the bound. */
        cr_assert_leq(all->sends.chunks, 2);
        cr_assert_leq(all->arrivals.chunks, 2);
    }
}

static uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void start(uint64_t seed, unsigned workers) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.workers = workers;
    printf("seed %lu\n", (unsigned long)seed);
    rig_up(&rig, &settings, seed);
    for (int end = A; end <= B; end++) {
        way[end].at_sender = malloc(messages);
        way[end].at_receiver = malloc(messages);
        memset(way[end].at_sender, NEVER_TOLD, messages);
        memset(way[end].at_receiver, NEVER_TOLD, messages);
    }
}

static void round_of_both(void) {
    for (int end = A; end <= B; end++) {
        send_some(end);
        post_some(end);
        cancel_some(end);
    }
    rig_step(&rig, sim_now() + 1 + sim_random(5000));
    chan_well(&c);
    hear(A);
    hear(B);
}

static void some_rounds(void) {
    for (uint64_t n = sim_random(3) ? sim_random(6) : 0; n > 0; n--)
        round_of_both();
}

/* Its lane is dropped when it has rested, or before. */
static void lose_way_of(int end) {
    struct rig_answer rested = {0}, dropped = {0};
    if (sim_random(2)) {
        chan_rest(&c, end);
        return;
    }
    plane_channel_rest(c.end[end].client.session, CHAN_HANDLE, rig_done, &rested);
    plane_lane_drop(c.end[end].lane, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &rested) + rig_await(&rig, &dropped), 0);
    c.end[end].lane = NULL;
}

/* Each of its steps at any moment of the other end's. */
static void lose_way(void) {
    int first = (int)sim_random(2);
    ways++;
    if (sim_random(2))
        chan_break(&c, (int)sim_random(2));
    some_rounds();
    sim_script()->hold_sends = sim_random(2);
    lose_way_of(first);
    some_rounds();
    lose_way_of(!first);
    sim_script()->hold_sends = false;
    first = (int)sim_random(2);
    some_rounds();
    chan_way(&c, first);
    some_rounds();
    if (sim_random(4) == 0) { /* one that is lost before it led anywhere */
        lose_way_of(first);
        some_rounds();
        chan_way(&c, first);
    }
    chan_way(&c, !first);
    unsigned opened = (unsigned)sim_random(3), connected = 0;
    for (unsigned n = 0; n < 3; n++) {
        some_rounds();
        if (n == opened)
            chan_open(&c);
        else
            chan_connect(&c, connected++ ? !first : first);
    }
}

static void run(bool remote, bool loses_ways) {
    while (way[A].over < messages || way[B].over < messages) {
        if (remote)
            break_some();
        if (loses_ways && sim_random(200) == 0)
            lose_way();
        round_of_both();
    }
    /* Of what was given up the receiver may still take some. */
    for (unsigned i = 0; i < 100; i++) {
        rig_step(&rig, sim_now() + NSEC_PER_MSEC);
        hear(A);
        hear(B);
    }
    bounded();
    for (int end = A; end <= B; end++) {
        const struct plane_channel_stats *stats = &c.end[end].stats;
        agree(&way[end]);
        printf("%s: %u done, %u untouched, %u unknown; %lu stalls, %lu resent, %u ways lost\n",
               end == A ? "A" : "B", way[end].done, way[end].untouched, way[end].unknown,
               (unsigned long)stats->stalls, (unsigned long)stats->resent, ways);
        cr_assert_gt(way[end].done, loses_ways ? messages / 3 : messages * 3 / 4);
        cr_assert_gt(way[end].untouched, 0);
        cr_assert_eq(stats->sends_waiting, 0);
        free(way[end].at_sender);
        free(way[end].at_receiver);
    }
    chan_down(&c);
    rig_down(&rig);
}

static bool lands;

TestSuite(channel_model, .timeout = 300);

static void between_daemons(uint64_t seed, bool lazy, bool loses_ways) {
    messages = (unsigned)number_of("RDMAD_CHANNEL_MESSAGES", test_sanitized() ? 8000 : 30000);
    start(number_of("RDMAD_CHANNEL_SEED", seed), 1);
    struct sim_script *script = sim_script();
    script->max_message = 65536;
    script->delay_max_ns = 3000;
    script->late_send_ppm = 300000;
    script->receive_window = 8;
    script->lazy_cancel = script->lazy_windows = lazy;
    if (lands) {
        script->max_send = 30000;
        script->land_from = 500;
        script->chunk = 1000;
    }
    chan_remote_up(&rig, &c, (SENDS + RECVS) * (size_t)BUFFER);
    run(true, loses_ways);
    cr_assert_eq(ways > 0, loses_ways);
}

Test(channel_model, every_message_once_in_order_and_both_ends_agree) {
    between_daemons(1, false, false);
}

Test(channel_model, likewise_where_hardware_takes_its_time) {
    between_daemons(2, true, false);
}

Test(channel_model, likewise_where_ways_are_lost) {
    between_daemons(5, false, true);
}

Test(channel_model, likewise_where_hardware_takes_its_time_and_ways_are_lost) {
    between_daemons(6, true, true);
}

/* Beside those that are READ. */
Test(channel_model, likewise_where_messages_land_and_ways_are_lost) {
    lands = true;
    between_daemons(7, true, true);
}

static void within_a_daemon(uint64_t seed, unsigned workers) {
    messages = (unsigned)number_of("RDMAD_CHANNEL_MESSAGES", 30000);
    start(number_of("RDMAD_CHANNEL_SEED", seed), workers);
    chan_local_up(&rig, &c, (SENDS + RECVS) * (size_t)BUFFER);
    run(false, false);
}

Test(channel_model, likewise_within_a_daemon) {
    within_a_daemon(3, 1);
}

Test(channel_model, likewise_between_two_workers_of_a_daemon) {
    within_a_daemon(4, 2);
}
