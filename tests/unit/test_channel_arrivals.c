/* SPDX-License-Identifier: MIT */
/*
 * Many messages of one channel wait at its receiver, as the READ of the first has not ended: each
 * is found by its number when its key or its withdrawal comes, and only that one is changed.
 * Allocations fail with -Wl,--wrap=calloc.
 */
#include "daemon/op/channel/entry.h"
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define POOL (1u << 18)
#define LARGE 100000u
#define EACH 10u /* bytes of a message */

enum { MOST = CHANNEL_WINDOW };

static struct rig rig;
static struct chan c;
static struct rig_client receives; /* a second ring of B's */
static bool out_of_memory;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    return out_of_memory ? NULL : __real_calloc(n, size);
}

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 4 * MOST;
    rig_up(&rig, &settings, 5);
    chan_remote_up(&rig, &c, POOL);
    rig_ring_up(&c.end[B].client, &receives, MOST, 2 * MOST);
}

static void done(void) {
    cr_assert_eq(c.end[B].closed, 0, "%s", c.end[B].why.text);
    chan_down(&c);
    rig_ring_free(&receives);
    rig_down(&rig);
}

TestSuite(channel_arrivals, .init = setup, .timeout = 120);

static struct channel_in *in(void) {
    return &chan_of(&c, B)->in;
}

static void receives_posted(unsigned count) {
    for (unsigned n = 0; n < count; n++) {
        const struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_RECV, 0, EACH, n);
        rig_put(&receives, &sqe);
    }
    rig_settle(&rig);
    cr_assert_eq(c.end[B].stats.receives_posted, count);
}

/* From A's daemon, which may lie. */
static void say(uint8_t type, uint64_t seq, uint8_t key) {
    uint8_t bytes[FABRIC_HEAD_MAX + EACH] = {0};
    const uint8_t key_bytes[FABRIC_BLOB_MAX] = {key};
    struct channel_message m;
    channel_message_init(chan_of(&c, A), &m, type);
    m.seq = seq;
    m.state.heard = in()->state.next;
    if (type == CHANNEL_OFFER || type == CHANNEL_KEY)
        m.key = (struct channel_key){.size = 8, .bytes = key_bytes};
    if (type == CHANNEL_OFFER || type == CHANNEL_DATA)
        m.length = EACH;
    size_t size = channel_encode(&m, bytes) + (type == CHANNEL_DATA ? EACH : 0);
    channel_received(&rig.plane[THERE]->worker[0], c.end[B].peer_in, chan_of(&c, B)->via, bytes,
                     size);
}

static uint64_t offered(unsigned count) {
    uint64_t first = in()->state.expect;
    for (unsigned n = 0; n < count; n++)
        say(CHANNEL_OFFER, first + n, 1);
    cr_assert_eq(in()->state.expect, first + count, "not all are taken");
    return first;
}

/* Goes to each by its place among them, not as a message does. */
static const struct op_arrival *nth(unsigned n) {
    const struct list *pos = in()->arrivals.next;
    while (n-- > 0)
        pos = pos->next;
    return list_entry(pos, struct op_arrival, node);
}

static void exchange(unsigned count) {
    for (unsigned n = 0; n < count; n++) {
        chan_put(&c, B, RDMAD_OP_RECV, 0, EACH, 1);
        chan_put(&c, A, RDMAD_OP_SEND, 0, EACH, 2);
        ASSERT_CQE(chan_wait(&c, B), 1, RDMAD_OK, RDMAD_DONE, EACH);
        ASSERT_CQE(chan_wait(&c, A), 2, RDMAD_OK, RDMAD_DONE, EACH);
    }
}

/* Waits until no READ goes on: those keys were good for nothing, so their receives wait again. A's
 * daemon says that it has heard so, as B's lets no more than CHANNEL_KEEPS_UP be unheard of. */
static void all_over(unsigned posted) {
    for (unsigned n = 0; n <= MOST / CHANNEL_KEEPS_UP; n++) {
        rig_run_until(&rig, sim_now() + 10 * NSEC_PER_MSEC);
        say(CHANNEL_STATE, 0, 0);
    }
    cr_assert(list_empty(&in()->arrivals), "some wait for ever");
    cr_assert_null(in()->place, "what they were found by is kept");
    cr_assert_eq(c.end[B].stats.receives_posted, posted);
}

static void each_by_its_number(unsigned before, unsigned count) {
    exchange(before);
    receives_posted(count);
    const uint64_t first = offered(count);
    cr_assert_eq(first, before);
    for (unsigned n = 0; n < count; n += 7)
        say(CHANNEL_KEY, first + n, 2);
    for (unsigned n = 0; n < count; n += 3)
        say(CHANNEL_WITHDRAW, first + n, 0);
    for (unsigned n = 0; n < count; n++) {
        const struct op_arrival *a = nth(n);
        cr_assert_eq(a->seq, first + n);
        cr_assert_eq(a->lease.key.bytes[0], n % 7 ? 1 : 2, "key of message %u of %u", n, count);
        cr_assert_eq(a->withdrawn, n % 3 == 0, "withdrawal of message %u of %u", n, count);
    }
    all_over(count);
    done();
}

Test(channel_arrivals, a_few_are_found) {
    each_by_its_number(3, CHANNEL_FEW);
}

Test(channel_arrivals, one_more_than_a_few_are_found) {
    each_by_its_number(5, CHANNEL_FEW + 1);
}

Test(channel_arrivals, some_hundred_are_found) {
    each_by_its_number(1000, 300);
}

Test(channel_arrivals, as_many_as_there_may_be_are_found) {
    each_by_its_number(700, MOST);
}

/* What is over, was refused or never came has nobody's number. */
Test(channel_arrivals, what_does_not_wait_is_not_found) {
    exchange(20);
    receives_posted(12);
    const uint64_t first = offered(12);
    for (unsigned places = 1; places <= MOST; places *= 2)
        for (unsigned n = 0; n < 12; n++) {
            if (first + n >= places)
                say(CHANNEL_WITHDRAW, first + n - places * (places < 12 ? 12 : 1), 0);
            say(CHANNEL_WITHDRAW, first + n + places * (places < 12 ? 12 : 1), 0);
        }
    say(CHANNEL_WITHDRAW, UINT64_MAX, 0);
    say(CHANNEL_WITHDRAW, first - 1, 0);
    say(CHANNEL_WITHDRAW, first + 12, 0);
    for (unsigned n = 0; n < 12; n++)
        cr_assert(!nth(n)->withdrawn, "message %u was withdrawn by another's number", n);
    all_over(12);
    for (unsigned n = 0; n < 12; n++)
        say(CHANNEL_WITHDRAW, first + n, 0);
    rig_settle(&rig);
    cr_assert_eq(in()->state.next, first + 12);
    done();
}

/* It comes again, as any that was refused. */
Test(channel_arrivals, without_memory_a_message_is_refused) {
    receives_posted(CHANNEL_FEW + 3);
    const uint64_t first = offered(1);
    const uint32_t refusals = in()->state.refusals;
    out_of_memory = true;
    for (unsigned n = 1; n < CHANNEL_FEW + 2; n++)
        say(CHANNEL_DATA, first + n, 0);
    out_of_memory = false;
    cr_assert_eq(in()->state.expect, first + CHANNEL_FEW, "%lu", in()->state.expect - first);
    cr_assert(in()->refusing);
    cr_assert_eq(in()->state.refusals, refusals + 1);
    for (unsigned n = CHANNEL_FEW; n < CHANNEL_FEW + 3; n++)
        say(CHANNEL_DATA, first + n, 0);
    cr_assert_eq(in()->state.expect, first + CHANNEL_FEW + 3, "it is not taken again");
    all_over(1); /* the offer's */
    for (unsigned n = 1; n < CHANNEL_FEW + 3; n++)
        ASSERT_CQE(rig_wait(&receives), n, RDMAD_OK, RDMAD_DONE, EACH);
    done();
}

/* Whatever came before them, none of which has its place any more. */
Test(channel_arrivals, a_few_need_no_memory) {
    receives_posted(CHANNEL_FEW);
    for (unsigned round = 0; round < 5; round++) {
        const uint64_t first = in()->state.expect;
        const unsigned count = CHANNEL_FEW - round % 3;
        out_of_memory = true;
        for (unsigned n = 0; n < count; n++)
            say(CHANNEL_OFFER, first + n, 1);
        out_of_memory = false;
        cr_assert_eq(in()->state.expect, first + count, "round %u", round);
        all_over(CHANNEL_FEW);
    }
    done();
}

/* Those that come after some have been rolled back have the same numbers. */
Test(channel_arrivals, what_comes_again_is_found) {
    receives_posted(40);
    const uint64_t first = offered(40);
    const struct rdmad_sqe cancel = {.opcode = RDMAD_OP_CANCEL, .lease = 20, .user_data = 1000};
    rig_put(&receives, &cancel);
    rig_run_until(&rig, sim_now() + 100 * NSEC_PER_MSEC);
    cr_assert_eq(in()->state.expect, first + 20, "%lu", in()->state.expect - first);
    const uint64_t again = offered(15);
    cr_assert_eq(again, first + 20);
    say(CHANNEL_WITHDRAW, again + 9, 0);
    for (unsigned n = 0; n < 15; n++)
        cr_assert_eq(nth(n)->withdrawn, n == 9, "message %u", n);
    all_over(39);
    done();
}

/* A's program takes some back while they are READ, which says so to B's daemon. */
Test(channel_arrivals, canceled_sends_are_the_ones_that_do_not_come) {
    enum { MANY = 60 };
    bool sent[MANY] = {false};
    unsigned came = 0, ok = 0, ended = 0;
    struct rdmad_cqe cqe;
    exchange(11);
    for (unsigned n = 0; n < MANY; n++)
        chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, n);
    rig_settle(&rig);
    for (unsigned n = 0; n < MANY; n++) {
        struct rdmad_sqe send = chan_sqe(RDMAD_OP_SEND, 0, LARGE, n);
        send.flags = RDMAD_SQE_IMM;
        send.imm = n;
        rig_put(&c.end[A].client, &send);
    }
    while (in()->state.expect < 11 + MANY)
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_SEC));
    for (unsigned n = 1; n < MANY; n += 4)
        chan_cancel(&c, A, n);
    while (ended < MANY) {
        cqe = chan_wait(&c, A);
        if (cqe.user_data == UINT64_MAX)
            continue;
        ended++;
        sent[cqe.user_data] = cqe.status == RDMAD_OK;
        ok += cqe.status == RDMAD_OK;
    }
    cr_assert(ok >= MANY - MANY / 4 && ok < MANY - 5, "%u were sent", ok);
    rig_run_until(&rig, sim_now() + 100 * NSEC_PER_MSEC);
    for (; chan_take(&c, B, &cqe); came++) {
        cr_assert_eq(cqe.status, RDMAD_OK);
        cr_assert(sent[cqe.imm], "message %u came, whose SEND was canceled", (unsigned)cqe.imm);
    }
    cr_assert_eq(came, ok, "%u of %u came", came, ok);
    done();
}

/* ---- what a turn has to do with very many ------------------------------------------------- */

/* The READ of a long message of A's, and receives for as many short ones as there may be. */
static void read_begins(void) {
    chan_put(&c, B, RDMAD_OP_RECV, 0, LARGE, MOST);
    rig_settle(&rig);
    chan_put(&c, A, RDMAD_OP_SEND, 0, LARGE, MOST);
    while (in()->state.expect == 0)
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_SEC));
    receives_posted(MOST - 1);
}

static void many_wait_behind_a_read(void) {
    read_begins();
    sim_script()->hold_sends = true; /* A would not believe what B says of messages it never sent */
    for (unsigned n = 1; n < MOST; n++)
        say(CHANNEL_DATA, n, 0);
    cr_assert_eq(in()->state.expect, MOST, "not all are taken");
    cr_assert(arrival_under_way(nth(0)), "the READ is over");
}

/* One of each worker. Returns how many ops of that ring ended. */
static unsigned turn(struct rig_client *ring, int status) {
    struct rdmad_cqe cqe;
    unsigned n = 0;
    for (int where = THERE; where >= HERE; where--) {
        struct worker *w = &rig.plane[where]->worker[0];
        for (unsigned k = 0; k < w->nlinks; k++)
            w->links[k].parked = false;
        worker_turn(w, sim_now());
    }
    sim_advance(NSEC_PER_MSEC);
    for (; rig_take(ring, &cqe); n++)
        cr_assert_eq(cqe.status, status, "%d", cqe.status);
    return n;
}

static void some_end_in_a_turn(struct rig_client *ring, int status) {
    unsigned all = 0, most = 0;
    for (unsigned n = 0; n < 1000 && all < MOST - 1; n++) {
        unsigned now = turn(ring, status);
        most = now > most ? now : most;
        all += now;
    }
    cr_expect_eq(all, MOST - 1, "%u ended", all);
    cr_expect_lt(most, MOST / 2, "%u ended in one turn", most);
    sim_script()->hold_sends = false;
    done();
}

Test(channel_arrivals, of_very_many_that_waited_only_some_complete_in_a_turn) {
    many_wait_behind_a_read();
    some_end_in_a_turn(&receives, RDMAD_OK);
}

/* As if each had been canceled before. */
Test(channel_arrivals, nor_do_more_canceled_receives_end) {
    many_wait_behind_a_read();
    list_for_each (pos, &in()->arrivals)
        list_entry(pos, struct op_arrival, node)->cancel = RDMAD_E_CANCELED;
    in()->rollback = 0;
    channel_touch(chan_of(&c, B));
    some_end_in_a_turn(&receives, RDMAD_E_CANCELED);
}

Test(channel_arrivals, nor_do_more_sends_that_were_on_their_way_to_a_peer_that_is_lost) {
    struct rig_client sends; /* a second ring of A's */
    rig_ring_up(&c.end[A].client, &sends, MOST, 2 * MOST);
    sim_script()->chunk = 16; /* so the READ takes longer than all that follows */
    read_begins();
    for (unsigned n = 0; n < MOST - 1; n++) {
        const struct rdmad_sqe sqe = chan_sqe(RDMAD_OP_SEND, 0, EACH, n);
        rig_put(&sends, &sqe);
    }
    while (in()->state.expect < MOST)
        cr_assert(rig_step(&rig, sim_now() + NSEC_PER_SEC));
    cr_assert(arrival_under_way(nth(0)), "the READ is over");
    sim_script()->hold_sends = true;
    channel_lost(chan_of(&c, A), RDMAD_E_PEER_LOST, NULL);
    some_end_in_a_turn(&sends, RDMAD_E_PEER_LOST);
    rig_ring_free(&sends);
}

/* They may be very many, of very many channels, and wait for long. */
Test(channel_arrivals, a_turn_looks_only_at_those_of_which_something_was_said) {
    many_wait_behind_a_read();
    list_entry(in()->arrivals.next, struct op_arrival, node)->withdrawn = true; /* not said */
    chan_put(&c, B, RDMAD_OP_RECV, 0, EACH, 1);
    channel_touch(chan_of(&c, B));
    rig_settle(&rig);
    cr_expect_eq(nth(0)->state, ARRIVAL_READING, "it was looked at");
    say(CHANNEL_WITHDRAW, 0, 0);
    rig_run_until(&rig, sim_now() + 10 * NSEC_PER_MSEC);
    cr_expect_neq(in()->state.next, 0, "nobody looked at it");
    sim_script()->hold_sends = false;
    done();
}
