/* SPDX-License-Identifier: MIT */
/*
 * test_bad_sqes.c - what a hostile client can write into its ring: each bad entry completes with
 * its own error and changes no byte; a ring whose indices make no sense ends its session; the
 * daemon and its other sessions go on.
 */
#include "common/ringword.h"
#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { POOL = 1 << 16 };
static const uint64_t second_ns = 1000000000;

/* A session with two pools: a lease on the second, attached to by the session itself. */
struct stage {
    struct tdaemon *d;
    json_t *before;
    int sock;
    struct raw_pool pool, target;
    struct raw_ring ring;
    struct rdmad_lease_grant_rep lease;
    struct rdmad_lease_attach_rep attach;
};

static void stage_up(struct stage *s) {
    char text[RDMAD_TEXT_MAX + 1];
    s->d = tdaemon_start("127.0.0.1", NULL);
    s->before = raw_objects_at_rest(s->d);
    s->sock = raw_session(tdaemon_dir(s->d));
    CHECK(raw_pool_create(s->sock, POOL, 0, &s->pool) == 0, "pool");
    CHECK(raw_pool_create(s->sock, POOL, 0, &s->target) == 0, "pool");
    CHECK(raw_ring_create(s->sock, 16, &s->ring) == 0, "ring");
    CHECK(raw_grant(s->sock, &s->target, 600 * second_ns, &s->lease, text) == 0, "grant: %s", text);
    CHECK(raw_attach(s->sock, s->lease.uri, &s->attach, text) == 0, "attach: %s", text);
    memset(s->pool.base, 'p', POOL);
    memset(s->target.base, 't', POOL);
}

static void stage_down(struct stage *s) {
    raw_ring_unmap(&s->ring);
    raw_pool_unmap(&s->pool);
    raw_pool_unmap(&s->target);
    close(s->sock);
    tdaemon_expect_objects(s->d, s->before);
    tdaemon_stop(s->d);
}

static struct rdmad_sqe good_write(const struct stage *s) {
    return (struct rdmad_sqe){.opcode = RDMAD_OP_WRITE,
                              .pool = s->pool.handle,
                              .length = 64,
                              .lease = s->attach.handle,
                              .user_data = test_random()};
}

static struct rdmad_cqe one(struct stage *s, const struct rdmad_sqe *sqe) {
    struct rdmad_cqe cqe;
    raw_ring_put(&s->ring, sqe, 1);
    CHECK(raw_ring_take(&s->ring, &cqe, (int)TEST_PATIENCE_MS), "no completion");
    CHECK(cqe.user_data == sqe->user_data, "the completion of another op");
    return cqe;
}

static void target_is(const struct stage *s, int byte) {
    for (size_t i = 0; i < POOL; i++)
        CHECK(s->target.base[i] == byte, "byte %zu of the target is %#x", i, s->target.base[i]);
}

static void refused(struct stage *s, const char *what, struct rdmad_sqe sqe, int code) {
    struct rdmad_cqe cqe = one(s, &sqe);
    CHECK(cqe.status == code, "%s: status %d instead of %d", what, cqe.status, code);
    CHECK(cqe.outcome == RDMAD_FAILED_UNTOUCHED && cqe.bytes == 0, "%s: outcome %u, %lu bytes",
          what, cqe.outcome, (unsigned long)cqe.bytes);
}

#define REFUSED(what, code, ...)             \
    do {                                     \
        struct rdmad_sqe q = good_write(&s); \
        __VA_ARGS__;                         \
        refused(&s, what, q, code);          \
    } while (0)

static void each_bad_entry_has_its_own_error(void) {
    struct stage s;
    stage_up(&s);
    REFUSED("unknown opcode", RDMAD_E_OPCODE, q.opcode = RDMAD_OP_COUNT);
    REFUSED("unknown opcode", RDMAD_E_OPCODE, q.opcode = 0xff);
    for (unsigned flag = 1; flag < 256; flag <<= 1)
        if (!(flag & (RDMAD_SQE_FENCE | RDMAD_SQE_SILENT | RDMAD_SQE_MORE | RDMAD_SQE_LINK)))
            REFUSED("flags", RDMAD_E_RESERVED, q.flags = (uint8_t)flag);
    REFUSED("reserved0", RDMAD_E_RESERVED, q.reserved0 = 1);
    REFUSED("imm", RDMAD_E_RESERVED, q.imm = 0x80000000u);
    REFUSED("NOP with a field", RDMAD_E_RESERVED, q.opcode = RDMAD_OP_NOP);
    REFUSED("pool 0", RDMAD_E_HANDLE, q.pool = 0);
    REFUSED("pool of another generation", RDMAD_E_HANDLE, q.pool ^= UINT64_C(1) << 40);
    REFUSED("pool beyond the table", RDMAD_E_HANDLE, q.pool = UINT64_MAX);
    REFUSED("lease 0", RDMAD_E_NO_LEASE, q.lease = 0);
    REFUSED("lease of another generation", RDMAD_E_NO_LEASE, q.lease ^= UINT64_C(1) << 40);
    REFUSED("lease beyond the table", RDMAD_E_NO_LEASE, q.lease = UINT64_MAX);

    /* The boundary set squared, for either side: exactly what lies inside is taken. */
    const uint64_t edge[] = {0,
                             1,
                             63,
                             64,
                             POOL - 64,
                             POOL - 1,
                             POOL,
                             POOL + 1,
                             UINT64_C(1) << 32,
                             UINT64_C(1) << 63,
                             UINT64_MAX - POOL,
                             UINT64_MAX - 1,
                             UINT64_MAX};
    for (unsigned i = 0; i < sizeof(edge) / sizeof(edge[0]); i++)
        for (unsigned j = 0; j < sizeof(edge) / sizeof(edge[0]); j++) {
            uint64_t offset = edge[i], length = edge[j];
            if (offset <= POOL && length <= POOL - offset)
                continue;
            REFUSED("range of the lease", RDMAD_E_RANGE, q.lease_offset = offset,
                    q.length = length);
            REFUSED("range of the pool", RDMAD_E_RANGE, q.pool_offset = offset, q.length = length);
        }
    target_is(&s, 't');

    struct rdmad_sqe fine = good_write(&s);
    fine.length = POOL;
    struct rdmad_cqe cqe = one(&s, &fine);
    CHECK(cqe.status == 0 && cqe.outcome == RDMAD_DONE && cqe.bytes == POOL, "status %d",
          cqe.status);
    target_is(&s, 'p');
    stage_down(&s);
}

/* Nothing but what a bad form of it has in common with a good WRITE. */
static struct rdmad_sqe bare(const struct stage *s, uint8_t opcode) {
    struct rdmad_sqe sqe = {.opcode = opcode, .user_data = test_random()};
    bool atomic = opcode == RDMAD_OP_CAS || opcode == RDMAD_OP_FADD;
    if (atomic || opcode == RDMAD_OP_NOTIFY)
        sqe.lease = s->attach.handle;
    sqe.length = atomic ? 8 : 0;
    if (opcode == RDMAD_OP_NOTIFIED)
        sqe.lease = s->lease.lease;
    if (opcode == RDMAD_OP_SEND || opcode == RDMAD_OP_RECV)
        sqe.pool = s->pool.handle;
    return sqe;
}

#define BAD(name, code, ...)                               \
    do {                                                   \
        struct rdmad_sqe q = bare(&s, RDMAD_OP_##name);    \
        __VA_ARGS__;                                       \
        refused(&s, #name " with " #__VA_ARGS__, q, code); \
    } while (0)

static void each_opcode_has_its_own_bad_forms(void) {
    struct stage s;
    stage_up(&s);
    BAD(CAS, RDMAD_E_ALIGN, q.length = 4);
    BAD(CAS, RDMAD_E_ALIGN, q.length = 16);
    BAD(CAS, RDMAD_E_ALIGN, q.lease_offset = 4);
    BAD(CAS, RDMAD_E_RESERVED, q.imm = 1);
    BAD(CAS, RDMAD_E_RESERVED, q.flags = RDMAD_SQE_IMM);
    BAD(CAS, RDMAD_E_NO_LEASE, q.lease = 0);
    BAD(FADD, RDMAD_E_ALIGN, q.length = 0);
    BAD(FADD, RDMAD_E_ALIGN, q.lease_offset = UINT64_MAX);
    BAD(FADD, RDMAD_E_RESERVED, q.compare = 1);
    BAD(NOTIFY, RDMAD_E_HANDLE, q.length = 1);
    BAD(NOTIFY, RDMAD_E_HANDLE, q.pool = 1);
    BAD(NOTIFY, RDMAD_E_RANGE, q.lease_offset = POOL + 1);
    BAD(NOTIFY, RDMAD_E_RESERVED, q.flags = RDMAD_SQE_LEASE);
    BAD(NOTIFY, RDMAD_E_RESERVED, q.flags = RDMAD_SQE_IMM);
    BAD(SEND, RDMAD_E_HANDLE, q.lease = 0);
    BAD(SEND, RDMAD_E_HANDLE, q.lease = UINT64_MAX);
    BAD(SEND, RDMAD_E_HANDLE, q.lease = s.attach.handle);
    BAD(SEND, RDMAD_E_HANDLE, q.pool = 0);
    BAD(SEND, RDMAD_E_RANGE, q.length = POOL + 1);
    BAD(SEND, RDMAD_E_RESERVED, q.lease_offset = 1);
    BAD(SEND, RDMAD_E_RESERVED, q.imm = 1);
    BAD(RECV, RDMAD_E_HANDLE, q.lease = 0);
    BAD(RECV, RDMAD_E_HANDLE, q.pool = 0);
    BAD(RECV, RDMAD_E_RANGE, q.pool_offset = UINT64_MAX);
    BAD(RECV, RDMAD_E_RESERVED, q.flags = RDMAD_SQE_FENCE);
    BAD(RECV, RDMAD_E_RESERVED, q.flags = RDMAD_SQE_SILENT);
    BAD(RECV, RDMAD_E_RESERVED, q.flags = RDMAD_SQE_LINK);
    BAD(NOTIFIED, RDMAD_E_NO_LEASE, q.lease = 0);
    BAD(NOTIFIED, RDMAD_E_NO_LEASE, q.lease ^= UINT64_C(1) << 50);
    BAD(NOTIFIED, RDMAD_E_RESERVED, q.pool = 1);
    BAD(NOTIFIED, RDMAD_E_RESERVED, q.length = 1);
    BAD(NOTIFIED, RDMAD_E_RESERVED, q.lease_offset = 8);
    BAD(NOTIFIED, RDMAD_E_RESERVED, q.flags = RDMAD_SQE_SILENT);
    BAD(CANCEL, RDMAD_E_HANDLE, q.lease = 12345);
    BAD(CANCEL, RDMAD_E_HANDLE, q.lease = q.user_data);
    BAD(CANCEL, RDMAD_E_RESERVED, q.length = 1);
    BAD(CANCEL, RDMAD_E_RESERVED, q.pool = 1);
    BAD(CANCEL, RDMAD_E_RESERVED, q.flags = RDMAD_SQE_FENCE);
    target_is(&s, 't');

    struct rdmad_sqe notify = bare(&s, RDMAD_OP_NOTIFY);
    notify.imm = 77;
    CHECK(one(&s, &notify).status == 0, "a good one after all");
    struct rdmad_sqe notified = bare(&s, RDMAD_OP_NOTIFIED);
    struct rdmad_cqe cqe = one(&s, &notified);
    CHECK(cqe.status == 0 && cqe.imm == 77 && cqe.flags == RDMAD_CQE_IMM, "status %d, imm %lu",
          cqe.status, (unsigned long)cqe.imm);
    stage_down(&s);
}

/* Its events come when its session ends: of each error the last. */
static void an_op_that_failed_is_told_of_by_its_user_data_whatever_that_is(void) {
    static const struct {
        uint64_t id, lease, offset;
        uint32_t imm;
        int status;
        const char *told;
    } ops[] = {{INT64_MAX, 0, 0, 0, RDMAD_E_NO_LEASE, "\"op\",\"id\":9223372036854775807,"},
               {UINT64_C(1) << 63, 1, UINT64_C(1) << 40, 0, RDMAD_E_RANGE,
                "\"op\",\"id\":\"9223372036854775808\","},
               {UINT64_MAX, 1, 0, 1, RDMAD_E_RESERVED, "\"op\",\"id\":\"18446744073709551615\","}};
    struct stage s;
    stage_up(&s);
    for (unsigned i = 0; i < 3; i++) {
        struct rdmad_sqe sqe = good_write(&s);
        sqe.user_data = ops[i].id;
        sqe.lease *= ops[i].lease;
        sqe.lease_offset += ops[i].offset;
        sqe.imm = ops[i].imm;
        struct rdmad_cqe cqe = one(&s, &sqe);
        CHECK(cqe.status == ops[i].status, "op %u ends with %d", i, cqe.status);
    }
    shutdown(s.sock, SHUT_RDWR);
    tdaemon_expect_objects(s.d, json_incref(s.before));
    json_t *events = tdaemon_call(s.d, "events", NULL);
    char *text = json_dumps(events, JSON_COMPACT);
    for (unsigned i = 0; i < 3; i++)
        CHECK(strstr(text, ops[i].told), "no %s in %s", ops[i].told, text);
    free(text);
    json_decref(events);
    json_t *why = tdaemon_call(
        s.d, "why", json_pack("{s:s, s:s}", "object", "op", "id", "18446744073709551615"));
    const json_t *of = json_object_get(why, "events");
    CHECK(json_array_size(of) == 1 &&
              !strcmp(json_string_value(json_object_get(why, "id")), "18446744073709551615"),
          "why has %zu events of it", json_array_size(of));
    json_decref(why);
    stage_down(&s);
}

static void a_batch_has_one_completion(void) {
    struct stage s;
    struct rdmad_cqe cqe;
    stage_up(&s);
    struct rdmad_sqe sqe[3] = {good_write(&s), good_write(&s), good_write(&s)};
    sqe[0].flags = RDMAD_SQE_MORE;
    sqe[1].flags = RDMAD_SQE_MORE;
    sqe[1].lease = 0;
    raw_ring_put(&s.ring, sqe, 3);
    CHECK(raw_ring_take(&s.ring, &cqe, (int)TEST_PATIENCE_MS), "no completion");
    CHECK(cqe.user_data == sqe[2].user_data && cqe.status == RDMAD_E_NO_LEASE && cqe.bytes == 128,
          "status %d, %lu bytes", cqe.status, (unsigned long)cqe.bytes);
    sqe[0].flags = RDMAD_SQE_SILENT;
    raw_ring_put(&s.ring, sqe, 1);
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = 5};
    CHECK(one(&s, &nop).status == 0, "what was silent said something");
    raw_ring_put(&s.ring, &sqe[1], 1); /* a batch without an end */
    stage_down(&s);
}

static void rights_are_kept(void) {
    struct stage s;
    stage_up(&s);
    static const uint32_t rights[] = {RDMAD_RIGHT_READ, RDMAD_RIGHT_WRITE};
    for (unsigned i = 0; i < 2; i++) {
        struct rdmad_lease_grant_req req = {
            .pool = s.target.handle, .length = POOL, .ttl_ns = 60 * second_ns, .rights = rights[i]};
        struct raw_packet reply;
        struct rdmad_lease_grant_rep rep;
        struct rdmad_lease_attach_rep at;
        CHECK(raw_request(s.sock, RDMAD_MSG_LEASE_GRANT, &req, sizeof(req), &reply) == 0, "grant");
        memcpy(&rep, raw_body(&reply), sizeof(rep));
        CHECK(raw_attach(s.sock, rep.uri, &at, NULL) == 0, "attach");
        REFUSED("the right that is not granted", RDMAD_E_RIGHTS, q.lease = at.handle,
                q.opcode = rights[i] == RDMAD_RIGHT_READ ? RDMAD_OP_WRITE : RDMAD_OP_READ);
        BAD(CAS, RDMAD_E_RIGHTS, q.lease = at.handle);
        BAD(FADD, RDMAD_E_RIGHTS, q.lease = at.handle);
        if (rights[i] == RDMAD_RIGHT_READ)
            BAD(NOTIFY, RDMAD_E_RIGHTS, q.lease = at.handle);
    }
    target_is(&s, 't');
    stage_down(&s);
}

/* It writes while that may be, if need be by another: a busy machine may be slower than a lease. */
static void write_in_time(struct stage *s, struct rdmad_lease_grant_rep *brief,
                          struct rdmad_sqe *sqe) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    struct rdmad_lease_attach_rep at;
    char text[RDMAD_TEXT_MAX + 1];
    int status;
    do {
        CHECK(raw_grant(s->sock, &s->target, second_ns / 2, brief, text) == 0, "grant: %s", text);
        status = raw_attach(s->sock, brief->uri, &at, text);
        *sqe = good_write(s);
        sqe->lease = at.handle;
        if (!status)
            status = one(s, sqe).status;
    } while (status == RDMAD_E_LEASE_EXPIRED && now_ms() < deadline);
    CHECK(status == 0, "in time: status %d", status);
}

static void an_ended_lease_says_why(void) {
    struct stage s;
    char text[RDMAD_TEXT_MAX + 1];
    stage_up(&s);
    struct rdmad_lease_grant_rep brief;
    struct rdmad_lease_attach_rep at;
    struct rdmad_sqe sqe;
    write_in_time(&s, &brief, &sqe);
    memset(s.target.base, 't', POOL);
    sleep_ms(600);
    struct rdmad_cqe cqe = one(&s, &sqe);
    CHECK(cqe.status == RDMAD_E_LEASE_EXPIRED && cqe.lease_id == brief.lease,
          "late: status %d, lease %lu", cqe.status, (unsigned long)cqe.lease_id);
    CHECK(raw_attach(s.sock, brief.uri, &at, text) == RDMAD_E_LEASE_EXPIRED, "attach: %s", text);

    CHECK(raw_revoke(s.sock, s.lease.lease) == 0, "revoke");
    sqe = good_write(&s);
    cqe = one(&s, &sqe);
    CHECK(cqe.status == RDMAD_E_LEASE_REVOKED && cqe.lease_id == s.lease.lease,
          "revoked: status %d, lease %lu", cqe.status, (unsigned long)cqe.lease_id);
    target_is(&s, 't');
    stage_down(&s);
}

/* ---- indices ------------------------------------------------------------------------------- */

/* A session with a ring of 16 that nobody else has; returns its socket. */
static int victim(const struct stage *s, struct raw_ring *ring) {
    int sock = raw_session(tdaemon_dir(s->d));
    CHECK(raw_ring_create(sock, 16, ring) == 0, "ring");
    return sock;
}

static void only_that_session_ended(struct stage *s, int sock, struct raw_ring *ring,
                                    uint32_t lie) {
    CHECK(raw_ended(sock, (int)TEST_PATIENCE_MS), "index %#x does not end the session", lie);
    raw_ring_unmap(ring);
    close(sock);
    struct rdmad_sqe sqe = good_write(s);
    CHECK(one(s, &sqe).status == 0, "a neighbour suffers");
}

static void nonsense_indices_end_the_session_only(void) {
    static const uint32_t tails[] = {17, 1000, UINT32_MAX, 0x80000000u};
    static const uint32_t heads[] = {1000, UINT32_MAX, 0x80000000u};
    struct raw_ring ring;
    struct stage s;
    stage_up(&s);
    for (unsigned i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        int sock = victim(&s, &ring);
        raw_ring_tail(&ring, tails[i]);
        only_that_session_ended(&s, sock, &ring, tails[i]);
    }
    /* More completions taken than there were: noticed when the daemon needs the room. */
    for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
        int sock = victim(&s, &ring);
        ringword_publish(&ring.client->cq_head, heads[i]);
        for (unsigned n = 0; n <= ring.cq_entries; n++) {
            raw_ring_put(&ring, &nop, 1);
            sleep_ms(1);
        }
        only_that_session_ended(&s, sock, &ring, heads[i]);
    }
    stage_down(&s);
}

/* A client that does not reap stops itself, gets everything later, and nobody else notices. */
static void a_lazy_reaper_stops_only_itself(void) {
    struct stage s;
    stage_up(&s);
    struct raw_ring lazy;
    int sock = raw_session(tdaemon_dir(s.d));
    CHECK(raw_ring_create(sock, 8, &lazy) == 0, "ring");
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    unsigned put = 0, most = lazy.cq_entries + lazy.sq_entries;
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    for (int quiet = 0; quiet < 50;) {
        uint32_t head = ringword_peek(&lazy.daemon->sq_head);
        if (put - head < lazy.sq_entries) {
            nop.user_data = put++;
            raw_ring_put(&lazy, &nop, 1);
            quiet = 0;
        } else {
            sleep_ms(2);
            quiet += put == most || now_ms() > deadline;
        }
        CHECK(put <= most, "the daemon takes more than it can answer");
    }
    CHECK(put == most, "stopped at %u", put);
    struct rdmad_sqe sqe = good_write(&s);
    CHECK(one(&s, &sqe).status == 0, "a neighbour suffers");
    for (unsigned i = 0; i < put; i++) {
        struct rdmad_cqe cqe;
        CHECK(raw_ring_take(&lazy, &cqe, (int)TEST_PATIENCE_MS), "completion %u is lost", i);
        CHECK(cqe.user_data == i, "completion %lu instead of %u", (unsigned long)cqe.user_data, i);
        if (i % 4 == 3) /* room again: the daemon may have gone to sleep over it */
            raw_ring_tail(&lazy, lazy.sq_tail);
    }
    raw_ring_unmap(&lazy);
    close(sock);
    stage_down(&s);
}

/* ---- an entry that changes while it is read ------------------------------------------------ */

struct mutator {
    struct rdmad_sqe *sqe;
    uint32_t count;
    bool stop;
};

static void *mutate(void *arg) {
    struct mutator *m = arg;
    volatile uint8_t *bytes = (volatile uint8_t *)m->sqe;
    uint64_t x = 88172645463325252u;
    while (!__atomic_load_n(&m->stop, __ATOMIC_RELAXED)) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        bytes[x % (m->count * sizeof(struct rdmad_sqe))] = (uint8_t)(x >> 32);
    }
    return NULL;
}

/* Whatever the daemon copied it judged and used; it never looks at the ring a second time. So only
 * the session's own memory can change. Some entries become silent or join a batch that has no end;
 * those that tell, tell once. */
static void entries_that_change_under_way_do_no_harm(void) {
    struct stage s;
    stage_up(&s);
    struct raw_pool bystander;
    int other = raw_session(tdaemon_dir(s.d));
    CHECK(raw_pool_create(other, POOL, 0, &bystander) == 0, "pool");
    memset(bystander.base, 'b', POOL);
    struct mutator m = {.sqe = s.ring.sqe, .count = s.ring.sq_entries};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, mutate, &m) == 0, "thread");
    unsigned odd = 0;
    for (unsigned i = 0; i < 20000; i++) {
        struct rdmad_sqe sqe = good_write(&s);
        struct rdmad_cqe cqe;
        raw_ring_put(&s.ring, &sqe, 1);
        for (uint64_t limit = now_ms() + TEST_PATIENCE_MS;
             ringword_peek(&s.ring.daemon->sq_head) != s.ring.sq_tail;) {
            CHECK(now_ms() < limit, "the daemon took no more");
            sched_yield();
        }
        while (raw_ring_take(&s.ring, &cqe, 0))
            odd += cqe.status != 0;
    }
    __atomic_store_n(&m.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    struct rdmad_sqe last = {.opcode = RDMAD_OP_NOP, .user_data = UINT64_C(0x5eed5eed5eed5eed)};
    struct rdmad_cqe cqe;
    raw_ring_put(&s.ring, &last, 1); /* of a batch, perhaps */
    do
        CHECK(raw_ring_take(&s.ring, &cqe, (int)TEST_PATIENCE_MS), "the ring answers no more");
    while (cqe.user_data != last.user_data);
    printf("  %u of 20000 entries were spoiled in time\n", odd);
    for (size_t i = 0; i < POOL; i++)
        CHECK(bystander.base[i] == 'b', "another session's memory changed");
    raw_pool_unmap(&bystander);
    close(other);
    stage_down(&s);
}

TEST_MAIN(CASE(each_bad_entry_has_its_own_error), CASE(each_opcode_has_its_own_bad_forms),
          CASE(an_op_that_failed_is_told_of_by_its_user_data_whatever_that_is),
          CASE(a_batch_has_one_completion), CASE(rights_are_kept), CASE(an_ended_lease_says_why),
          CASE(nonsense_indices_end_the_session_only), CASE(a_lazy_reaper_stops_only_itself),
          CASE(entries_that_change_under_way_do_no_harm))
