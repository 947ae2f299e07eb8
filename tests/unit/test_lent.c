/* SPDX-License-Identifier: MIT */
/* Memory that was freed while others may reach it, by a lease or out of a service's budget, is not
 * handed out again before that has ended, and then is. The daemon is a fake one. */
#include "tests/unit/child.h"
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(lent, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);
TestSuite(lent_guard, .timeout = 20); /* children set up for themselves */

/* Small ones, one of whole pages, and one that is most of the pool. */
static const size_t sizes[] = {64, 100, 4096, 3 * 4096, 9 * 4096};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* Takes all that the pool has, and gives it back. */
static unsigned room_for(size_t size, const char *not_this) {
    static char *piece[1024 + 1];
    unsigned n = 0, count;

    while ((piece[n] = rdmad_alloc(pool, size))) {
        cr_assert(!not_this || piece[n] + size <= not_this || not_this + size <= piece[n],
                  "%zu bytes under a lease were handed out again", size);
        n++;
    }
    count = n;
    while (n)
        rdmad_free(pool, piece[--n]);
    return count;
}

static void ends_by_revoke(rdmad_lease *l) {
    cr_assert_eq(rdmad_lease_revoke(l), 0);
}

static void ends_by_free(rdmad_lease *l) {
    rdmad_lease_free(l);
}

/* Expired, or released by its last lessee; nobody takes the event. */
static void ends_by_itself(rdmad_lease *l) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;

    rdmad_lease_get_info(l, &info);
    fake_lease_ended(&fake, info.id, 0, RDMAD_E_LEASE_EXPIRED);
}

static void until_it_is_there(size_t size, unsigned room) {
    for (int i = 0; i < 1000 && room_for(size, NULL) < room; i++)
        usleep(10000); /* the event is on its way */
    cr_assert_geq(room_for(size, NULL), room, "%zu bytes were never handed out again", size);
}

static void each_size(void (*end)(rdmad_lease *)) {
    for (unsigned i = 0; i < SIZES; i++) {
        unsigned room = room_for(sizes[i], NULL);
        char *piece = rdmad_alloc(pool, sizes[i]);
        rdmad_lease *own;
        cr_assert_eq(rdmad_lease_grant(s, piece, sizes[i], NULL, &own), 0);
        rdmad_free(pool, piece);
        room_for(sizes[i], piece);
        cr_assert_not_null(strstr(rdmad_last_error(s), "were freed, and are under leases"), "%s",
                           rdmad_last_error(s));
        end(own);
        until_it_is_there(sizes[i], room);
    }
}

Test(lent, memory_freed_under_a_lease_waits_for_its_revoke) {
    each_size(ends_by_revoke);
}

Test(lent, memory_freed_under_a_lease_waits_until_the_lease_is_freed) {
    each_size(ends_by_free);
}

Test(lent, memory_freed_under_a_lease_waits_for_its_end_though_nobody_takes_events) {
    each_size(ends_by_itself);
}

static bool other_numbers(struct fake_daemon *f, const struct rdmad_msg_header *h,
                          const void *body) {
    static uint64_t number = 100;
    struct rdmad_lease_grant_rep rep = {.lease = ++number, .ttl_ns = UINT64_C(1000000000000)};

    (void)body;
    if (h->type != RDMAD_MSG_LEASE_GRANT)
        return false;
    fake_reply(f, h, &rep, sizeof(rep));
    return true;
}

Test(lent, of_several_leases_on_a_piece_the_last_one_counts_whichever_bytes_it_is_on) {
    unsigned room = room_for(4096, NULL);
    char *piece = rdmad_alloc(pool, 4096);
    rdmad_lease *whole, *byte, *all;

    fake.hook = other_numbers;
    cr_assert_eq(rdmad_lease_grant(s, memory, 1 << 16, NULL, &all), 0);
    cr_assert_eq(rdmad_lease_grant(s, piece, 4096, NULL, &whole), 0);
    cr_assert_eq(rdmad_lease_grant(s, piece + 4095, 1, NULL, &byte), 0);
    rdmad_free(pool, piece);
    rdmad_lease_free(all);
    cr_assert_eq(room_for(4096, piece), room - 1);
    rdmad_lease_free(whole);
    cr_assert_eq(room_for(4096, piece), room - 1);
    rdmad_lease_free(byte);
    cr_assert_eq(room_for(4096, NULL), room);
}

Test(lent, memory_that_an_op_and_a_lease_hold_waits_for_both) {
    unsigned room = room_for(4096, NULL);

    for (int op_first = 0; op_first < 2; op_first++) {
        char *piece = rdmad_alloc(pool, 4096);
        struct rdmad_sqe *entry = rdmad_ring_reserve(ring), sqe;
        rdmad_lease *own;
        cr_assert_eq(rdmad_prep_write(ring, entry, lease, 0, piece, 4096, 1), 0);
        cr_assert_eq(rdmad_ring_submit(ring), 1);
        cr_assert_eq(rdmad_lease_grant(s, piece, 4096, NULL, &own), 0);
        rdmad_free(pool, piece);
        sqe = rig_take();
        if (op_first) {
            rig_complete(&sqe, 0);
            rig_reap();
        } else {
            rdmad_lease_free(own);
        }
        cr_assert_eq(room_for(4096, piece), room - 1);
        if (op_first) {
            rdmad_lease_free(own);
        } else {
            rig_complete(&sqe, 0);
            rig_reap();
        }
        cr_assert_eq(room_for(4096, NULL), room);
    }
}

static bool refuse_grant(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const void *body) {
    (void)body;
    if (h->type != RDMAD_MSG_LEASE_GRANT && h->type != RDMAD_MSG_SERVICE_LISTEN)
        return false;
    fake_refuse(f, h, RDMAD_E_LIMIT, "too many");
    return true;
}

Test(lent, a_grant_that_was_refused_keeps_nothing) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    unsigned room = room_for(4096, NULL);
    char *piece = rdmad_alloc(pool, 4096);
    rdmad_service *service;
    rdmad_lease *own;

    fake.hook = refuse_grant;
    terms.budget = piece;
    terms.budget_bytes = 4096;
    cr_assert_eq(rdmad_lease_grant(s, piece, 4096, NULL, &own), RDMAD_E_LIMIT);
    cr_assert_eq(rdmad_listen(s, "name", &terms, &service), RDMAD_E_LIMIT);
    rdmad_free(pool, piece);
    cr_assert_eq(room_for(4096, NULL), room);
}

Test(lent, memory_of_a_budget_waits_until_its_service_is_closed) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    unsigned room = room_for(4096, NULL);
    rdmad_service *service;

    terms.budget = rdmad_alloc(pool, 4096);
    terms.budget_bytes = 4096;
    cr_assert_eq(rdmad_listen(s, "name", &terms, &service), 0, "%s", rdmad_last_error(s));
    rdmad_free(pool, terms.budget);
    cr_assert_eq(room_for(4096, terms.budget), room - 1);
    rdmad_service_close(service);
    cr_assert_eq(room_for(4096, NULL), room);
}

Test(lent, on_a_session_that_is_lost_nobody_knows_so_it_is_not_handed_out_any_more) {
    unsigned room = room_for(4096, NULL);
    char *piece = rdmad_alloc(pool, 4096);
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_lease *own;

    cr_assert_eq(rdmad_lease_grant(s, piece, 4096, NULL, &own), 0);
    rdmad_free(pool, piece);
    fake_hang_up(&fake);
    cr_assert_eq(rdmad_next_event(s, 2000, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST);
    rdmad_lease_free(own);
    cr_assert_eq(room_for(4096, piece), room - 1);
}

static void free_twice_under_a_lease(void) {
    char *piece;
    rdmad_lease *own;

    rig_set_up();
    piece = rdmad_alloc(pool, 64);
    cr_assert_eq(rdmad_lease_grant(s, piece, 64, NULL, &own), 0);
    rdmad_free(pool, piece);
    rdmad_free(pool, piece);
}

Test(lent_guard, a_second_free_while_the_first_waits_ends_the_program) {
    child_aborts(free_twice_under_a_lease,
                 "was freed before, while a lease or a budget on it is alive");
}

static void free_in_guard_mode(void) {
    char *piece;
    rdmad_lease *own;

    setenv("RDMAD_GUARD", "1", 1);
    rig_set_up();
    piece = rdmad_alloc(pool, 64);
    cr_assert_eq(rdmad_lease_grant(s, piece, 64, NULL, &own), 0);
    rdmad_free(pool, piece);
    for (unsigned i = 0; i < 64; i++) { /* guard mode's own queue of the dead included */
        char *other = rdmad_alloc(pool, 4096);
        if (other == piece)
            fprintf(stderr, "handed out again");
        rdmad_free(pool, other);
    }
    rdmad_lease_revoke(own);
    for (unsigned i = 0; i < 16; i++) {
        if (!rdmad_alloc(pool, 4096))
            abort();
    }
}

Test(lent_guard, guard_mode_says_that_a_buffer_was_freed_under_a_lease) {
    child_lives(free_in_guard_mode,
                "under lease 7, which is alive: others may still read and write "
                "it, so it is not handed out again before that ends");
}

static bool refuse_revoke(struct fake_daemon *f, const struct rdmad_msg_header *h,
                          const void *body) {
    (void)body;
    if (h->type != RDMAD_MSG_LEASE_REVOKE)
        return false;
    fake_refuse(f, h, RDMAD_E_INTERNAL, "no");
    return true;
}

static void free_the_lease_then_the_buffer(void) {
    char *piece;
    rdmad_lease *own;

    setenv("RDMAD_GUARD", "1", 1);
    rig_set_up();
    fake.hook = refuse_revoke;
    piece = rdmad_alloc(pool, 64);
    cr_assert_eq(rdmad_lease_grant(s, piece, 64, NULL, &own), 0);
    rdmad_lease_free(own);
    rdmad_free(pool, piece);
}

Test(lent_guard, a_lease_that_the_program_let_go_of_is_not_named_though_its_range_stays_lent) {
    child_lives(free_the_lease_then_the_buffer, "under a lease that has just ended, which");
}

static void destroy_the_pool_then_free_the_lease(void) {
    rdmad_pool *own_pool;
    rdmad_lease *own;

    rig_set_up();
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &own_pool), 0);
    cr_assert_eq(rdmad_lease_grant(s, rdmad_pool_base(own_pool), 64, NULL, &own), 0);
    fake_hang_up(&fake);
    cr_assert_eq(rdmad_pool_destroy(own_pool), 0);
    rdmad_lease_free(own);
    rdmad_close(s);
    fprintf(stderr, "all gone");
}

static void revoke_after_the_pool(void) {
    rdmad_pool *own_pool;
    rdmad_lease *own;

    rig_set_up();
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &own_pool), 0);
    cr_assert_eq(rdmad_lease_grant(s, rdmad_pool_base(own_pool), 64, NULL, &own), 0);
    cr_assert_eq(rdmad_pool_destroy(own_pool), 0);
    cr_assert_eq(rdmad_lease_revoke(own), 0);
    rdmad_lease_free(own);
    fprintf(stderr, "all gone");
}

Test(lent_guard, a_lease_may_outlive_its_pool) {
    child_lives(destroy_the_pool_then_free_the_lease, "all gone");
    child_lives(revoke_after_the_pool, "all gone");
}
