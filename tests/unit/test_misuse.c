/* SPDX-License-Identifier: MIT */
/*
 * What programs do wrong with handles and entries ends in a sentence: they are ended with one that
 * names the call and the object, or the call returns an error that has one. Never by SIGSEGV, and
 * never in silence. Each program is a child of its own, at a fake daemon.
 */
#include "libclient/base/object.h"
#include "tests/unit/child.h"
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(misuse, .timeout = 60); /* children set up for themselves */

struct program {
    void (*body)(void);
    const char *words; /* NULL: the body has judged the error itself */
};

#define ENDS(name, ...)      \
    static void name(void) { \
        rig_set_up();        \
        more_set_up();       \
        __VA_ARGS__;         \
    }

/* What the rig does not have. */
static rdmad_service *service;
static rdmad_channel *channel;
static rdmad_lease *own;
static struct rdmad_event event = RDMAD_EVENT_INIT;
static struct rdmad_session_info session_info = RDMAD_SESSION_INFO_INIT;
static struct rdmad_lease_info lease_info = RDMAD_LEASE_INFO_INIT;
static struct rdmad_lease_audit audit = RDMAD_LEASE_AUDIT_INIT;
static struct rdmad_channel_info channel_info = RDMAD_CHANNEL_INFO_INIT;
static struct rdmad_incoming incoming = RDMAD_INCOMING_INIT;
static struct rdmad_name names[1] = {RDMAD_NAME_INIT};
static const struct rdmad_cqe *cqe;
static rdmad_pool *pool2;
static rdmad_lease *lease2;
static rdmad_ring *ring2;
static uint64_t number;
static size_t count;
static char uri[RDMAD_URI_MAX + 1];

static void must(int ok) {
    if (ok)
        return;
    fprintf(stderr, "the test itself: %s\n", rdmad_last_error(NULL));
    _exit(1);
}

static void more_set_up(void) {
    must(rdmad_listen(s, "service", NULL, &service) == 0);
    must(rdmad_connect(s, "rdmad:///service", 0, 0, &channel) == 0);
    must(rdmad_lease_grant(s, memory, 64, NULL, &own) == 0);
}

static struct rdmad_sqe *entry(void) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    must(sqe != NULL);
    return sqe;
}

/* ---- handles that are gone ----------------------------------------------------------------- */

ENDS(close_twice, rdmad_close(s); rdmad_close(s))
ENDS(closed_pool_create, rdmad_close(s); rdmad_pool_create(s, 1, 0, &pool2))
ENDS(closed_pool_import, rdmad_close(s); rdmad_pool_import(s, 0, &pool2))
ENDS(closed_grant, rdmad_close(s); rdmad_lease_grant(s, memory, 64, NULL, &lease2))
ENDS(closed_attach, rdmad_close(s); rdmad_lease_attach(s, "name", 0, &lease2))
ENDS(closed_request, rdmad_close(s); rdmad_lease_request(s, "name", 1, NULL, 0, &lease2))
ENDS(closed_event, rdmad_close(s); rdmad_next_event(s, 0, &event))
ENDS(closed_fd, rdmad_close(s); rdmad_session_fd(s))
ENDS(closed_info, rdmad_close(s); rdmad_session_get_info(s, &session_info))
ENDS(closed_list, rdmad_close(s); rdmad_names_list(s, NULL, NULL, NULL, 0, names, 1, &count))
ENDS(closed_watch, rdmad_close(s); rdmad_names_watch(s, NULL, NULL, 0, &number))
ENDS(closed_listen, rdmad_close(s); rdmad_listen(s, "name", NULL, &service))
ENDS(closed_connect, rdmad_close(s); rdmad_connect(s, "rdmad:///x", 0, 0, &channel))
ENDS(closed_ring_create, rdmad_close(s); rdmad_ring_create(s, 4, &ring2))
ENDS(closed_last_error, rdmad_close(s); rdmad_last_error(s))
ENDS(closed_alloc, rdmad_close(s); rdmad_alloc(pool, 64))
ENDS(closed_pool_destroy, rdmad_close(s); rdmad_pool_destroy(pool))
ENDS(closed_write, rdmad_close(s); rdmad_write(lease, 0, memory, 8))
ENDS(closed_lease_free, rdmad_close(s); rdmad_lease_free(lease))
ENDS(closed_own_free, rdmad_close(s); rdmad_lease_free(own))
ENDS(closed_peek, rdmad_close(s); rdmad_ring_peek(ring, &cqe))
ENDS(closed_ring_destroy, rdmad_close(s); rdmad_ring_destroy(ring))
ENDS(closed_accept, rdmad_close(s); rdmad_accept(service, NULL, 0, &channel))
ENDS(closed_service_close, rdmad_close(s); rdmad_service_close(service))
ENDS(closed_send, rdmad_close(s); rdmad_send(channel, memory, 8))
ENDS(closed_channel_close, rdmad_close(s); rdmad_channel_close(channel))

ENDS(destroy_pool_twice, rdmad_pool_destroy(pool); rdmad_pool_destroy(pool))
ENDS(alloc_of_destroyed, rdmad_pool_destroy(pool); rdmad_alloc(pool, 64))
ENDS(free_of_destroyed, char *p = rdmad_alloc(pool, 64); rdmad_pool_destroy(pool);
     rdmad_free(pool, p))
ENDS(lock_of_destroyed, rdmad_pool_destroy(pool); rdmad_buf_lock_read(pool, memory, 1, 0))
ENDS(unlock_of_destroyed, rdmad_pool_destroy(pool); rdmad_buf_unlock_write(pool, memory, 1))
ENDS(size_of_destroyed, rdmad_pool_destroy(pool); rdmad_pool_size(pool))
ENDS(base_of_destroyed, rdmad_pool_destroy(pool); rdmad_pool_base(pool))

ENDS(free_lease_twice, rdmad_lease_free(lease); rdmad_lease_free(lease))
ENDS(free_own_twice, rdmad_lease_free(own); rdmad_lease_free(own))
ENDS(write_freed, rdmad_lease_free(lease); rdmad_write(lease, 0, memory, 8))
ENDS(read_freed, rdmad_lease_free(lease); rdmad_read(lease, 0, memory, 8))
ENDS(write_copy_freed, rdmad_lease_free(lease); rdmad_write_copy(lease, 0, memory, 8))
ENDS(cas_freed, rdmad_lease_free(lease); rdmad_cas(lease, 0, 0, 0, NULL))
ENDS(writev_freed, struct rdmad_segment one = {memory, 8, 0}; rdmad_lease_free(lease);
     rdmad_writev(lease, &one, 1))
ENDS(notify_freed, rdmad_lease_free(lease); rdmad_write_notify(lease, 0, memory, 8, 1))
ENDS(notified_freed, rdmad_lease_free(own); rdmad_wait_notified(own, 0, NULL, NULL))
ENDS(revoke_freed, rdmad_lease_free(own); rdmad_lease_revoke(own))
ENDS(renew_freed, rdmad_lease_free(own); rdmad_lease_renew(own, 1000))
ENDS(info_freed, rdmad_lease_free(lease); rdmad_lease_get_info(lease, &lease_info))
ENDS(uri_freed, rdmad_lease_free(own); rdmad_lease_uri(own))
ENDS(audit_freed, rdmad_lease_free(own); rdmad_lease_get_audit(own, &audit))
ENDS(keep_freed, rdmad_lease_free(lease); rdmad_lease_keep(lease, 1))
ENDS(delegate_freed, rdmad_lease_free(lease); rdmad_lease_delegate(lease, 0, 1, NULL, 0, uri))
ENDS(prep_freed, rdmad_lease_free(lease); rdmad_prep_write(ring, entry(), lease, 0, memory, 8, 1))

ENDS(destroy_ring_twice, rdmad_ring_destroy(ring); rdmad_ring_destroy(ring))
ENDS(reserve_destroyed, rdmad_ring_destroy(ring); rdmad_ring_reserve(ring))
ENDS(prep_destroyed, struct rdmad_sqe *e = entry(); rdmad_ring_destroy(ring);
     rdmad_prep_nop(ring, e, 1))
ENDS(submit_destroyed, rdmad_ring_destroy(ring); rdmad_ring_submit(ring))
ENDS(peek_destroyed, rdmad_ring_destroy(ring); rdmad_ring_peek(ring, &cqe))
ENDS(wait_destroyed, rdmad_ring_destroy(ring); rdmad_ring_wait(ring, 0, &cqe))
ENDS(dispatch_destroyed, rdmad_ring_destroy(ring); rdmad_ring_dispatch(ring, 0, 0))
ENDS(cancel_destroyed, rdmad_ring_destroy(ring); rdmad_ring_cancel(ring, 1, NULL))
ENDS(arm_destroyed, rdmad_ring_destroy(ring); rdmad_ring_arm(ring))
ENDS(fd_destroyed, rdmad_ring_destroy(ring); rdmad_ring_fd(ring))

ENDS(close_service_twice, rdmad_service_close(service); rdmad_service_close(service))
ENDS(accept_closed, rdmad_service_close(service); rdmad_accept(service, NULL, 0, &channel))
ENDS(incoming_closed, rdmad_service_close(service); rdmad_next_incoming(service, 0, &incoming))
ENDS(service_uri_closed, rdmad_service_close(service); rdmad_service_uri(service))
ENDS(service_free_closed, rdmad_service_close(service); rdmad_service_free(service, memory))

ENDS(close_channel_twice, rdmad_channel_close(channel); rdmad_channel_close(channel))
ENDS(abort_closed, rdmad_channel_close(channel); rdmad_channel_abort(channel))
ENDS(send_closed, rdmad_channel_close(channel); rdmad_send(channel, memory, 8))
ENDS(recv_aborted, rdmad_channel_abort(channel); rdmad_recv(channel, memory, 8, 0, NULL))
ENDS(send_lease_closed, rdmad_channel_close(channel); rdmad_send_lease(channel, "rdmad:///x"))
ENDS(recv_lease_closed, rdmad_channel_close(channel); rdmad_recv_lease(channel, 0, &lease2))
ENDS(channel_info_closed, rdmad_channel_close(channel);
     rdmad_channel_get_info(channel, &channel_info))
ENDS(prep_send_closed, rdmad_channel_close(channel);
     rdmad_prep_send(ring, entry(), channel, memory, 8, 1))

/* ---- handles that never were ---------------------------------------------------------------- */

static void *as_handle(void *p) {
    return p;
}

ENDS(null_session, rdmad_pool_create(NULL, 1, 0, &pool2))
ENDS(null_pool, rdmad_alloc(NULL, 64))
ENDS(null_lease, rdmad_write(NULL, 0, memory, 8))
ENDS(null_ring, rdmad_ring_reserve(NULL))
ENDS(null_service, rdmad_accept(NULL, NULL, 0, &channel))
ENDS(null_channel, rdmad_send(NULL, memory, 8))
ENDS(channel_as_lease, rdmad_write(as_handle(channel), 0, memory, 8))
ENDS(session_as_pool, rdmad_alloc(as_handle(s), 8))
ENDS(buffer_as_ring, rdmad_ring_reserve(as_handle(memory)))

/* ---- entries and completions ---------------------------------------------------------------- */

ENDS(flags_of_null, rdmad_sqe_set_flags(NULL, 1))
ENDS(imm_of_null, rdmad_sqe_set_imm(NULL, 1))
ENDS(timeout_of_null, rdmad_sqe_set_deadline(NULL, 1))
ENDS(seen_twice, struct rdmad_sqe sqe; rig_submit_write(1); sqe = rig_take(); rig_complete(&sqe, 0);
     must(rdmad_ring_wait(ring, 2000, &cqe) == 0); rdmad_ring_seen(ring, cqe);
     rdmad_ring_seen(ring, cqe))
ENDS(seen_of_nothing, struct rdmad_cqe mine = {0}; rdmad_ring_seen(ring, &mine))

static const struct program of_closed_sessions[] = {
    {close_twice, "rdmad_close: session "},
    {closed_pool_create, "rdmad_pool_create: session "},
    {closed_pool_import, "rdmad_pool_import: session "},
    {closed_grant, "rdmad_lease_grant: session "},
    {closed_attach, "rdmad_lease_attach: session "},
    {closed_request, "rdmad_lease_request: session "},
    {closed_event, "rdmad_next_event: session "},
    {closed_fd, "rdmad_session_fd: session "},
    {closed_info, "rdmad_session_get_info: session "},
    {closed_list, "rdmad_names_list: session "},
    {closed_watch, "rdmad_names_watch: session "},
    {closed_listen, "rdmad_listen: session "},
    {closed_connect, "rdmad_connect: session "},
    {closed_ring_create, "rdmad_ring_create: session "},
    {closed_last_error, "rdmad_last_error: session "},
    {closed_alloc, "rdmad_alloc: pool 11 "},
    {closed_pool_destroy, "rdmad_pool_destroy: pool 11 "},
    {closed_write, "rdmad_write: lease 7 "},
    {closed_lease_free, "rdmad_lease_free: lease 7 "},
    {closed_own_free, "rdmad_lease_free: lease 7 "},
    {closed_peek, "rdmad_ring_peek: ring 21 "},
    {closed_ring_destroy, "rdmad_ring_destroy: ring 21 "},
    {closed_accept, "rdmad_accept: service "},
    {closed_service_close, "rdmad_service_close: service "},
    {closed_send, "rdmad_send: channel "},
    {closed_channel_close, "rdmad_channel_close: channel "},
};

static const struct program of_destroyed_pools[] = {
    {destroy_pool_twice, "rdmad_pool_destroy: pool 11 "},
    {alloc_of_destroyed, "rdmad_alloc: pool 11 "},
    {free_of_destroyed, "rdmad_free: pool 11 "},
    {lock_of_destroyed, "rdmad_buf_lock_read: pool 11 "},
    {unlock_of_destroyed, "rdmad_buf_unlock_write: pool 11 "},
    {size_of_destroyed, "rdmad_pool_size: pool 11 "},
    {base_of_destroyed, "rdmad_pool_base: pool 11 "},
};

static const struct program of_freed_leases[] = {
    {free_lease_twice, "rdmad_lease_free: lease 7 "},
    {free_own_twice, "rdmad_lease_free: lease 7 "},
    {write_freed, "rdmad_write: lease 7 "},
    {read_freed, "rdmad_read: lease 7 "},
    {write_copy_freed, "rdmad_write_copy: lease 7 "},
    {cas_freed, "rdmad_cas: lease 7 "},
    {writev_freed, "rdmad_writev: lease 7 "},
    {notify_freed, "rdmad_write_notify: lease 7 "},
    {notified_freed, "rdmad_wait_notified: lease 7 "},
    {revoke_freed, "rdmad_lease_revoke: lease 7 "},
    {renew_freed, "rdmad_lease_renew: lease 7 "},
    {info_freed, "rdmad_lease_get_info: lease 7 "},
    {uri_freed, "rdmad_lease_uri: lease 7 "},
    {audit_freed, "rdmad_lease_get_audit: lease 7 "},
    {keep_freed, "rdmad_lease_keep: lease 7 "},
    {delegate_freed, "rdmad_lease_delegate: lease 7 "},
    {prep_freed, "rdmad_prep_write: lease 7 "},
};

static const struct program of_destroyed_rings[] = {
    {destroy_ring_twice, "rdmad_ring_destroy: ring 21 "},
    {reserve_destroyed, "rdmad_ring_reserve: ring 21 "},
    {prep_destroyed, "rdmad_prep_nop: ring 21 "},
    {submit_destroyed, "rdmad_ring_submit: ring 21 "},
    {peek_destroyed, "rdmad_ring_peek: ring 21 "},
    {wait_destroyed, "rdmad_ring_wait: ring 21 "},
    {dispatch_destroyed, "rdmad_ring_dispatch: ring 21 "},
    {cancel_destroyed, "rdmad_ring_cancel: ring 21 "},
    {arm_destroyed, "rdmad_ring_arm: ring 21 "},
    {fd_destroyed, "rdmad_ring_fd: ring 21 "},
};

static const struct program of_closed_services[] = {
    {close_service_twice, "rdmad_service_close: service "},
    {accept_closed, "rdmad_accept: service "},
    {incoming_closed, "rdmad_next_incoming: service "},
    {service_uri_closed, "rdmad_service_uri: service "},
    {service_free_closed, "rdmad_service_free: service "},
};

static const struct program of_closed_channels[] = {
    {close_channel_twice, "rdmad_channel_close: channel "},
    {abort_closed, "rdmad_channel_abort: channel "},
    {send_closed, "rdmad_send: channel "},
    {recv_aborted, "rdmad_recv: channel "},
    {send_lease_closed, "rdmad_send_lease: channel "},
    {recv_lease_closed, "rdmad_recv_lease: channel "},
    {channel_info_closed, "rdmad_channel_get_info: channel "},
    {prep_send_closed, "rdmad_prep_send: channel "},
};

/* Each of them ends with the call's and the object's name. */
static void all_end(const struct program *p, size_t programs) {
    for (size_t i = 0; i < programs; i++) {
        child_aborts(p[i].body, p[i].words);
        child_aborts(p[i].body, " is gone since rdmad_");
    }
}
#define ALL_END(table) all_end(table, sizeof(table) / sizeof(*(table)))

Test(misuse, a_handle_of_a_closed_session_ends_the_program_with_a_sentence) {
    ALL_END(of_closed_sessions);
}

Test(misuse, a_handle_that_is_gone_ends_the_program_with_the_calls_and_the_objects_name) {
    ALL_END(of_destroyed_pools);
    ALL_END(of_freed_leases);
    ALL_END(of_destroyed_rings);
    ALL_END(of_closed_services);
    ALL_END(of_closed_channels);
}

static const struct program never_were[] = {
    {null_session, "rdmad_pool_create: the session is NULL"},
    {null_pool, "rdmad_alloc: the pool is NULL"},
    {null_lease, "rdmad_write: the lease is NULL"},
    {null_ring, "rdmad_ring_reserve: the ring is NULL"},
    {null_service, "rdmad_accept: the service is NULL"},
    {null_channel, "rdmad_send: the channel is NULL"},
    {channel_as_lease, "is a channel, not a lease"},
    {session_as_pool, "is a session, not a pool"},
    {buffer_as_ring, "is no ring"},
    {flags_of_null, "rdmad_sqe_set_flags: the entry is NULL"},
    {imm_of_null, "rdmad_sqe_set_imm: the entry is NULL"},
    {timeout_of_null, "rdmad_sqe_set_deadline: the entry is NULL"},
    {seen_twice, "rdmad_ring_seen: "},
    {seen_of_nothing, "rdmad_ring_seen: "},
};

Test(misuse, what_is_no_handle_entry_or_completion_ends_the_program_with_a_sentence) {
    for (size_t i = 0; i < sizeof(never_were) / sizeof(*never_were); i++)
        child_aborts(never_were[i].body, never_were[i].words);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void refused(int rc, int code, const char *words) {
    if (rc == code && strstr(rdmad_last_error(s), words))
        return;
    fprintf(stderr, "%s, not %s with \"%s\": %s\n", rdmad_errname(rc), rdmad_errname(code), words,
            rdmad_last_error(s));
    _exit(1);
}

static const char not_reserved[] = "none that ring 21 has reserved and not submitted";

ENDS(prep_null, refused(rdmad_prep_read(ring, NULL, lease, 0, memory, 8, 1), RDMAD_E_INVAL,
                        "the entry is NULL: ring 21 had none free"))
ENDS(prep_submitted, struct rdmad_sqe *e = rig_prep_write(1); rdmad_ring_submit(ring);
     refused(rdmad_prep_nop(ring, e, 2), RDMAD_E_INVAL, not_reserved))
ENDS(prep_elsewhere, struct rdmad_sqe mine;
     refused(rdmad_prep_nop(ring, &mine, 2), RDMAD_E_INVAL, not_reserved))
ENDS(prep_inside, struct rdmad_sqe *e = entry();
     refused(rdmad_prep_nop(ring, as_handle((char *)e + 8), 2), RDMAD_E_INVAL, not_reserved))
ENDS(prep_other_rings, must(rdmad_ring_create(s, 4, &ring2) == 0);
     struct rdmad_sqe *e = rdmad_ring_reserve(ring2);
     refused(rdmad_prep_cancel(ring, e, 1, 2), RDMAD_E_INVAL, not_reserved))
ENDS(callback_null,
     refused(rdmad_sqe_set_callback(ring, NULL, NULL, NULL), RDMAD_E_INVAL, "the entry is NULL"))
ENDS(unreserve_submitted, struct rdmad_sqe *e = rig_prep_write(1); rdmad_ring_submit(ring);
     refused(rdmad_ring_unreserve(ring, e), RDMAD_E_INVAL, not_reserved))
ENDS(unreserve_first, struct rdmad_sqe *e = rig_prep_write(1); entry();
     refused(rdmad_ring_unreserve(ring, e), RDMAD_E_INVAL, "has reserved last"))

static const struct program returning[] = {
    {prep_null, NULL},           {prep_submitted, NULL},   {prep_elsewhere, NULL},
    {prep_inside, NULL},         {prep_other_rings, NULL}, {callback_null, NULL},
    {unreserve_submitted, NULL}, {unreserve_first, NULL},
};

Test(misuse, an_entry_that_is_not_the_rings_to_prepare_is_refused_with_a_sentence) {
    for (size_t i = 0; i < sizeof(returning) / sizeof(*returning); i++)
        child_lives(returning[i].body, returning[i].words);
}

/* ---- what it costs -------------------------------------------------------------------------- */

TestSuite(ended, .init = rig_set_up, .fini = rig_tear_down, .timeout = 60);

Test(ended, objects_are_kept_for_a_while_and_not_for_ever) {
    size_t before = 0;

    for (int round = 0; round < 3000; round++) {
        if (round == 1500)
            before = mallinfo2().uordblks;
        cr_assert_eq(rdmad_lease_grant(s, memory, 64, NULL, &own), 0);
        rdmad_lease_free(own);
    }
    cr_assert_lt(mallinfo2().uordblks, before + (256 << 10), "ended leases pile up");
}

Test(ended, a_reserved_entry_can_be_given_back) {
    struct rdmad_sqe *first = rig_prep_write(1), *second = rig_prep_write(2), sqe;

    cr_assert_eq(rdmad_ring_unreserve(ring, second), 0);
    cr_assert_eq(rdmad_ring_reserve(ring), second);
    cr_assert_eq(rdmad_prep_read(ring, second, lease, 0, memory + 64, 64, 3), 0,
                 "what it held is still held: %s", rdmad_last_error(s));
    cr_assert_eq(rdmad_ring_unreserve(ring, second), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1, "the first alone");
    sqe = rig_take();
    rig_complete(&sqe, 0);
    cr_assert_eq(rig_reap().user_data, 1);
    cr_assert_eq(rdmad_ring_unreserve(ring, first), RDMAD_E_INVAL);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}
