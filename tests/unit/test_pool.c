/* SPDX-License-Identifier: MIT */
/*
 * Pools: whatever is interrupted at whatever moment, every byte, descriptor and charge comes back,
 * and not before nobody uses it any more; and what is not sealed or not all there is not used.
 */
#include "tests/unit/session_rig.h"

#include "daemon/ipc/conn.h"
#include "tests/unit/porter_rig.h"

#include <event2/event.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <sys/stat.h>

TestSuite(pool, .init = rig_set_up, .fini = rig_tear_down);

Test(pool, a_pool_is_sealed_memory_that_both_sides_see) {
    struct session *s = session();
    ask_pool(s, POOL_BYTES, 0);
    cr_assert_eq(charged(QUOTA_BYTES), POOL_CHARGE, "charged before it is made");
    cr_assert_eq(charged(QUOTA_MAPPINGS), 1);
    UNTIL(out.calls);
    struct pool *p = out.pool;
    cr_assert_eq(out.code, 0);
    cr_assert_eq(p->bytes, POOL_CHARGE);
    cr_assert_eq(rdmad_memfd_verify(out.fd, POOL_CHARGE), 0);
    char *theirs = rdmad_memfd_map(out.fd, POOL_CHARGE, true);
    populate_and_seal(out.fd, POOL_CHARGE, true);
    close(out.fd);
    ask_ready(p);
    UNTIL(fake_pending(FAKE_POOL_ADD));
    cr_assert_eq(out.calls, 0, "not ready before the data plane has it");
    cr_assert_null(pool_find(s, p->handle, NULL));
    fake_answer(fake_call(FAKE_POOL_ADD, -1), 0);
    cr_assert_eq(out.calls, 1);
    cr_assert_eq(pool_find(s, p->handle, NULL), p);
    strcpy(theirs, "hello");
    cr_assert_str_eq(p->base, "hello");
    munmap(theirs, POOL_CHARGE);
    session_close(s, NULL);
}

static void not_ready(struct pool *p, const char *words) {
    ask_ready(p);
    UNTIL(out.calls);
    cr_assert_eq(out.code, RDMAD_E_PERM, "%d", out.code);
    cr_assert_not_null(strstr(out.text, words), "%s", out.text);
    struct error err;
    cr_assert_null(pool_find(p->session, p->handle, &err));
    cr_assert_not_null(strstr(err.text, "is not ready"), "%s", err.text);
    cr_assert_eq(fake_count(FAKE_POOL_ADD), 0, "the data plane hears of it");
    cr_assert_eq(fake_memories, 0, "the devices hear of it");
}

Test(pool, memory_that_is_not_sealed_is_used_for_nothing) {
    struct session *s = session();
    struct pool *p = made(s, POOL_BYTES);
    char *theirs = rdmad_memfd_map(out.fd, POOL_CHARGE, true);
    int fd = out.fd;

    cr_assert_eq(rdmad_memfd_populate(theirs, POOL_CHARGE, true), 0);
    not_ready(p, "its seals are 0x6, 0x17 are needed");
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    not_ready(p, "its seals are 0x16, 0x17 are needed");
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
    ask_ready(p); /* what was refused may be made good */
    struct error err;
    cr_assert_eq(pool_make_ready(s, p->handle, on_ready, &out, &err), RDMAD_E_INVAL);
    cr_assert_not_null(strstr(err.text, "is being made ready"));
    UNTIL(fake_pending(FAKE_POOL_ADD));
    fake_answer(fake_call(FAKE_POOL_ADD, -1), 0);
    cr_assert_eq(out.code, 0, "%s", out.text);
    cr_assert_eq(pool_make_ready(s, p->handle, on_ready, &out, &err), RDMAD_E_INVAL);
    cr_assert_not_null(strstr(err.text, "is ready already"));
    munmap(theirs, POOL_CHARGE);
    close(fd);
    session_close(s, NULL);
}

Test(pool, memory_with_a_hole_is_used_for_nothing_and_the_hole_is_not_filled_by_us) {
    struct session *s = session();
    struct pool *p = made(s, POOL_BYTES);
    struct stat st_fd;
    int fd = out.fd;
    char *theirs = rdmad_memfd_map(fd, POOL_CHARGE, true);

    cr_assert_eq(rdmad_memfd_populate(theirs, POOL_CHARGE - 4096, true), 0);
    cr_assert_eq(rdmad_memfd_freeze(fd), 0);
    not_ready(p, "has holes, 98304 of its 102400 bytes are there");
    cr_assert_eq(fstat(fd, &st_fd), 0);
    cr_assert_eq(st_fd.st_blocks * 512, POOL_CHARGE - 4096, "we have paid for a page of a client");
    theirs[POOL_CHARGE - 1] = 1;
    ask_ready(p);
    UNTIL(fake_pending(FAKE_POOL_ADD));
    munmap(theirs, POOL_CHARGE);
    close(fd);
    session_close(s, NULL);
}

Test(pool, a_pool_over_the_limit_is_refused_before_anything_is_made) {
    struct session *s = session();
    ask_pool(s, (1 << 20) + 1, 0);
    cr_assert_eq(out.code, RDMAD_E_LIMIT);
    cr_assert_eq(charged(QUOTA_POOLS), 0);
    ask_pool(s, UINT64_MAX, 0);
    cr_assert_eq(out.code, RDMAD_E_RANGE);
    ask_pool(s, 0, 0);
    cr_assert_eq(out.code, RDMAD_E_INVAL);
    ask_pool(s, 1, 0x80);
    cr_assert_eq(out.code, RDMAD_E_RESERVED);
    session_close(s, NULL);
}

Test(pool, closing_while_pool_memory_is_made_gives_all_of_it_back) {
    struct session *s = session();
    ask_pool(s, POOL_BYTES, 0);
    session_close(s, NULL);
    UNTIL(out.calls == 1);
    cr_assert_eq(out.code, RDMAD_E_SHUTDOWN);
    cr_assert_eq(fake_count(FAKE_POOL_ADD), 0, "the data plane of a closed session is not asked");
}

static sem_t gate;

static void wait_at_gate(struct offload_job *job) {
    (void)job;
    sem_wait(&gate);
}

static void gate_passed(struct offload_job *job) {
    job->reply_to = NULL;
}

Test(pool, pools_of_a_closing_session_are_not_even_begun) {
    struct session *s = session();
    struct offload_job busy = {.reply_to = &box, .run = wait_at_gate, .done = gate_passed};
    sem_init(&gate, 0, 0);
    busy.owner = s->uid;
    offload_post(st.offload, &busy);   /* as gigabytes of the same uid keep the thread busy */
    fake_memory_error = RDMAD_E_NOMEM; /* what a pool would end with that got as far as that */
    ask_pool(s, POOL_BYTES, 0);
    pool_create(s, POOL_BYTES, 0, on_pool, &out);
    session_close(s, NULL);
    fake_answer(fake_call(FAKE_SESSION_DROP, -1), 0);
    sem_post(&gate);
    UNTIL(out.calls == 2);
    cr_assert_eq(out.code, RDMAD_E_SHUTDOWN, "%s", out.text);
    UNTIL(list_empty(&st.sessions));
    cr_assert_null(busy.reply_to, "its mail came");
    sem_destroy(&gate);
}

Test(pool, a_pool_of_several_slices_is_ready_whole) {
    const uint64_t bytes = ((uint64_t)40 << 20) + 4096;
    struct quota_limits *limits = &st.quota.limits;
    struct session *s = session();
    limits->total[QUOTA_BYTES] = limits->uid[QUOTA_BYTES] = limits->session[QUOTA_BYTES] = bytes;
    const struct pool *p = nearly_ready(s, bytes);
    fake_answer(fake_call(FAKE_POOL_ADD, -1), 0);
    cr_assert_eq(out.code, 0, "%s", out.text);
    cr_assert_eq(p->shared.fd, -1, "its descriptor is needed no more");
    unsigned char present[((40u << 20) + 4096) / 4096];
    cr_assert_eq(mincore(p->base, bytes, present), 0);
    for (size_t i = 0; i < sizeof(present); i++)
        cr_assert(present[i] & 1);
    session_close(s, NULL);
}

Test(pool, closing_while_the_data_plane_takes_a_pool_gives_all_of_it_back) {
    struct session *s = session();
    nearly_ready(s, POOL_BYTES);
    session_close(s, NULL);
    fake_answer(fake_call(FAKE_POOL_ADD, -1), 0);
    cr_assert_eq(out.calls, 1);
    cr_assert_eq(out.code, RDMAD_E_SHUTDOWN);
    cr_assert_eq(mappings_of("rdmad-pool"), 1, "the data plane has it until it drops the session");
    fake_answer(fake_call(FAKE_SESSION_DROP, -1), 0);
}

Test(pool, closing_while_a_pool_is_looked_at_gives_all_of_it_back) {
    struct session *s = session();
    struct pool *p = made(s, POOL_BYTES);
    populate_and_seal(out.fd, p->bytes, true);
    close(out.fd);
    ask_ready(p);
    session_close(s, NULL);
    fake_answer(fake_call(FAKE_SESSION_DROP, -1), 0);
    UNTIL(out.calls);
    cr_assert_eq(out.code, RDMAD_E_SHUTDOWN);
    cr_assert_eq(fake_count(FAKE_POOL_ADD), 0, "the data plane of a closed session is not asked");
}

Test(pool, a_pool_that_the_data_plane_refuses_can_be_tried_again_and_destroyed) {
    struct session *s = session();
    unsigned done = 0;
    struct pool *p = nearly_ready(s, POOL_BYTES);
    fake_answer(fake_call(FAKE_POOL_ADD, -1), RDMAD_E_NOMEM);
    cr_assert_eq(out.code, RDMAD_E_NOMEM);
    cr_assert_null(pool_find(s, p->handle, NULL));
    ask_ready(p);
    UNTIL(fake_pending(FAKE_POOL_ADD));
    fake_answer(fake_call(FAKE_POOL_ADD, -1), RDMAD_E_NOMEM);
    cr_assert_eq(fake_memories, 1, "it is registered once");
    cr_assert_eq(pool_destroy(s, p->handle, on_done, &done, NULL), 0);
    cr_assert_eq(done, 1, "the data plane has nothing to let go of");
    UNTIL(charged(QUOTA_BYTES) == 0);
    cr_assert_eq(s->pools.used, 0);
    session_close(s, NULL);
}

Test(pool, a_pool_is_known_to_the_devices_as_long_as_anything_can_use_it) {
    unsigned done = 0;
    struct session *s = session();
    struct pool *pool = make_pool(s);
    cr_assert_eq(fake_memories, 1);
    cr_assert_not_null(pool->memory);
    cr_assert_eq(fake_call(FAKE_POOL_ADD, -1)->memory, pool->memory, "the workers name it by that");
    pool_ref(pool); /* a lease that is ending still */
    cr_assert_eq(pool_destroy(s, pool->handle, on_done, &done, NULL), 0);
    fake_answer(fake_call(FAKE_POOL_DROP, -1), 0);
    cr_assert_eq(done, 1);
    cr_assert_eq(fake_memories, 1, "its window is over it");
    pool_unref(pool);
    UNTIL(charged(QUOTA_BYTES) == 0); /* it was mapped until the devices let go: fake_plane looks */
    cr_assert_eq(fake_memories, 0);
    session_close(s, NULL);
}

Test(pool, a_pool_that_no_device_takes_fails_in_the_devices_words) {
    struct session *s = session();
    struct pool *p = made(s, POOL_BYTES);
    fake_memory_error = RDMAD_E_NOMEM;
    populate_and_seal(out.fd, p->bytes, true);
    close(out.fd);
    ask_ready(p);
    UNTIL(out.calls);
    cr_assert_eq(out.code, RDMAD_E_NOMEM);
    cr_assert_not_null(strstr(out.text, "cannot be registered with fake0"), "%s", out.text);
    cr_assert_eq(fake_count(FAKE_POOL_ADD), 0);
    session_close(s, NULL);
}

Test(pool, a_pool_is_unmapped_only_when_the_data_plane_let_go) {
    unsigned done = 0;
    struct session *s = session();
    uint64_t handle = make_pool(s)->handle;
    cr_assert_eq(pool_destroy(s, handle, on_done, &done, NULL), 0);
    cr_assert_null(pool_find(s, handle, NULL), "the handle is dead at once");
    cr_assert_eq(mappings_of("rdmad-pool"), 1);
    cr_assert_eq(charged(QUOTA_BYTES), POOL_CHARGE);
    fake_answer(fake_call(FAKE_POOL_DROP, -1), 0);
    cr_assert_eq(done, 1);
    UNTIL(charged(QUOTA_BYTES) == 0);
    struct error err;
    cr_assert_eq(pool_destroy(s, handle, on_done, &done, &err), RDMAD_E_HANDLE);
    session_close(s, NULL);
}

Test(pool, a_pool_with_a_lease_cannot_be_destroyed_and_outlives_its_table) {
    struct error err;
    struct session *s = session();
    struct pool *p = make_pool(s);
    pool_ref(p);
    p->leases++;
    cr_assert_eq(pool_destroy(s, p->handle, on_done, NULL, &err), RDMAD_E_BUSY);
    cr_assert_not_null(strstr(err.text, "1 leases"));
    session_close(s, NULL);
    fake_answer(fake_call(FAKE_SESSION_DROP, -1), 0);
    mailbox_drain(&box);
    cr_assert_eq(mappings_of("rdmad-pool"), 1, "the lease's reference keeps it");
    p->leases--;
    pool_unref(p);
}

Test(pool, a_pool_destroyed_while_it_is_made_ready_is_freed_once) {
    for (int step = 0; step < 3; step++) {
        unsigned done = 0;
        struct session *s = session();
        struct pool *p;
        if (step == 0) { /* the registration thread has it */
            p = made(s, POOL_BYTES);
            populate_and_seal(out.fd, p->bytes, true);
            close(out.fd);
            ask_ready(p);
        } else {
            p = nearly_ready(s, POOL_BYTES);
        }
        cr_assert_eq(pool_destroy(s, p->handle, on_done, &done, NULL), 0);
        if (step == 0) {
            UNTIL(out.calls);
        } else {
            fake_answer(fake_call(FAKE_POOL_ADD, -1), step == 1 ? RDMAD_E_NOMEM : 0);
            fake_answer(fake_call(FAKE_POOL_DROP, -1), 0);
        }
        cr_assert_eq(out.code, step == 1 ? RDMAD_E_NOMEM : RDMAD_E_CANCELED);
        cr_assert_eq(done, 1);
        UNTIL(charged(QUOTA_BYTES) == 0);
        session_close(s, NULL);
    }
}

Test(pool, a_pool_covers_its_bytes_and_nothing_that_overflows) {
    struct session *s = session();
    const struct pool *p = make_pool(s);
    cr_assert(pool_covers(p, 0, POOL_CHARGE));
    cr_assert(pool_covers(p, POOL_CHARGE, 0));
    cr_assert_not(pool_covers(p, 0, POOL_CHARGE + 1));
    cr_assert_not(pool_covers(p, 1, POOL_CHARGE));
    cr_assert_not(pool_covers(p, POOL_CHARGE + 1, 0));
    cr_assert_not(pool_covers(p, 1, UINT64_MAX));
    cr_assert_not(pool_covers(p, UINT64_MAX, 1));
    cr_assert_eq(pool_by_address(&st, (char *)p->base + POOL_CHARGE - 1), p);
    cr_assert_null(pool_by_address(&st, (char *)p->base + POOL_CHARGE));
    session_close(s, NULL);
}

/* ---- memory that is not taken -----------------------------------------------------------------
 */

static unsigned packets_read;

static void count_packet(void *user, const void *data, size_t size, int *fds, unsigned nfds) {
    (void)user, (void)data, (void)size, (void)fds, (void)nfds;
    packets_read++;
}

static void conn_over(void *user, const char *why) {
    (void)user;
    cr_assert_fail("the connection ended: %s", why);
}

static int memfd_of(size_t bytes) {
    int fd = memfd_create("rdmad-test", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

/* Its close may take long, and the uid's thread may be busy for longer: descriptors must not pile
 * up meanwhile. */
Test(pool, who_sends_memory_that_is_refused_waits_until_it_is_closed) {
    static const struct conn_events events = {.packet = count_packet, .closed = conn_over};
    struct session *s = session();
    struct offload_job busy = {.reply_to = &box, .run = wait_at_gate, .done = gate_passed};
    struct event_base *base = event_base_new();
    struct porter *porter = porter_rig(base, NULL);
    struct rota *rota = rota_new(base);
    int pair[2];
    rig_kept_fds = 2; /* both ends of the porter's pair stay open until the process ends */
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(conn_new(base, porter, rota, pair[0], 0, &events, NULL, &s->conn), 0);
    sem_init(&gate, 0, 0);
    busy.owner = s->uid;
    offload_post(st.offload, &busy);
    int fd = memfd_of(4096);
    pool_import(s, fd, 1, on_pool, &out);
    cr_assert_eq(out.calls, 1);
    cr_assert_eq(out.code, RDMAD_E_INVAL, "%s", out.text);
    cr_assert_geq(fcntl(fd, F_GETFD), 0);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(send(pair[1], "more", 4, 0), 4);
    for (unsigned i = 0; i < 20; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    cr_expect_eq(packets_read, 0, "%u more requests were read meanwhile", packets_read);
    sem_post(&gate);
    UNTIL(fcntl(fd, F_GETFD) < 0);
    for (unsigned i = 0; i < 2000 && packets_read < 3; i++) {
        mailbox_drain(&box);
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(10000);
    }
    cr_expect_eq(packets_read, 3);
    session_close(s, NULL);
    close(pair[1]);
    porter_free(porter);
    rota_free(rota);
    event_base_free(base);
    sem_destroy(&gate);
}

/* In another container, say. */
Test(pool, who_made_something_large_keeps_no_tenant_with_the_same_uid_waiting) {
    const struct session_user user = {
        .who = {.uid = 1000, .socket = "blue"}, .tenant = 2, .gid = 1000, .pid = 1};
    struct session *s = session(), *tenant;
    struct offload_job busy;
    cr_assert_eq(session_new_of(&st, &user, &tenant, NULL), 0);
    sem_init(&gate, 0, 0);
    session_post(s, &busy, wait_at_gate, gate_passed);
    session_close_fd(tenant, memfd_of(4096));
    cr_expect_eq(tenant->holds, 2);
    UNTIL(tenant->holds == 1);
    cr_expect_eq(busy.reply_to, &box, "the large one is at it still");
    sem_post(&gate);
    UNTIL(!busy.reply_to);
    session_close(s, NULL);
    session_close(tenant, NULL);
    fake_answer_all();
    UNTIL(list_empty(&st.sessions));
    sem_destroy(&gate);
}

/* Or it would come again and again, each time with one more. */
Test(pool, a_session_with_memory_to_be_closed_counts_until_it_is) {
    struct session *s = session();
    struct offload_job busy = {.reply_to = &box, .run = wait_at_gate, .done = gate_passed};
    sem_init(&gate, 0, 0);
    busy.owner = s->uid;
    offload_post(st.offload, &busy);
    session_close_fd(s, memfd_of(4096));
    session_close(s, NULL);
    fake_answer(fake_call(FAKE_SESSION_DROP, -1), 0);
    mailbox_drain(&box);
    cr_expect_eq(charged(QUOTA_SESSIONS), 1);
    sem_post(&gate);
    UNTIL(list_empty(&st.sessions));
    cr_expect_eq(charged(QUOTA_SESSIONS), 0);
    sem_destroy(&gate);
}
