/* SPDX-License-Identifier: MIT */
/*
 * test_resume_rude.c - clients that take the memory away that they want to hand to a later daemon,
 * or hand back what was never theirs.
 */
#include "common/uri.h"
#include "tests/support/raw_resume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POOL = 4 << 20 };
static const uint64_t ttl_ns = UINT64_C(600000000000);

static void punch(const struct raw_pool *p, size_t at, size_t bytes) {
    CHECK(fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes) ==
              0,
          "%s", strerror(errno));
}

static void a_hole_costs_its_maker_the_session_and_the_daemon_no_page(void) {
    static const uint8_t opcodes[] = {RDMAD_OP_READ, RDMAD_OP_WRITE, RDMAD_OP_FADD};
    char text[RDMAD_TEXT_MAX + 1];
    struct rdmad_resume_proof proof;
    for (unsigned i = 0; i < sizeof(opcodes); i++) {
        struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
        struct rdmad_lease_grant_rep lease;
        struct rdmad_lease_attach_rep attach;
        struct raw_pool pool, mine, theirs;
        struct raw_ring ring;
        struct rdmad_cqe cqe;
        int sock = raw_offered(d, &proof), other = raw_session(tdaemon_dir(d));
        CHECK(raw_pool_create(other, POOL, 0, &theirs) == 0, "pool");
        raw_pool_to_keep(sock, POOL, &pool);
        raw_pool_to_keep(sock, POOL, &mine);
        CHECK(raw_ring_create(sock, 16, &ring) == 0, "ring");
        struct rdmad_lease_grant_req grant = {.pool = pool.handle,
                                              .length = pool.bytes,
                                              .ttl_ns = ttl_ns,
                                              .rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE |
                                                        RDMAD_RIGHT_ATOMIC};
        struct raw_packet reply;
        CHECK(raw_request(sock, RDMAD_MSG_LEASE_GRANT, &grant, sizeof(grant), &reply) == 0, "%s",
              raw_text(&reply));
        memcpy(&lease, raw_body(&reply), sizeof(lease));
        CHECK(raw_attach(sock, lease.uri, &attach, text) == 0, "%s", text);
        uint64_t before = tdaemon_rss_bytes(d);
        punch(&pool, 0, POOL);
        struct rdmad_sqe sqe = {.opcode = opcodes[i],
                                .pool = opcodes[i] == RDMAD_OP_FADD ? 0 : mine.handle,
                                .length = opcodes[i] == RDMAD_OP_FADD ? 8 : POOL,
                                .lease = attach.handle};
        raw_ring_put(&ring, &sqe, 1);
        bool told = raw_ring_take(&ring, &cqe, (int)TEST_PATIENCE_MS);
        CHECK(!told || cqe.status == RDMAD_E_FAULT, "op %u on a hole ended with %d", opcodes[i],
              cqe.status);
        CHECK(raw_ended(sock, (int)TEST_PATIENCE_MS), "the session goes on");
        uint64_t after = tdaemon_rss_bytes(d);
        CHECK(after < before + POOL / 2, "the daemon has %llu bytes more",
              (unsigned long long)(after - before));
        close(sock);
        struct raw_pool more;
        CHECK(raw_pool_create(other, POOL, 0, &more) == 0, "a neighbour has no pool any more");
        sock = raw_session(tdaemon_dir(d));
        CHECK(raw_offer(sock, &proof, text) == RDMAD_E_UNSUPPORTED, "who did it may do it again");
        close(sock);
        close(other);
        raw_ring_unmap(&ring);
        raw_pool_unmap(&pool);
        raw_pool_unmap(&mine);
        raw_pool_unmap(&theirs);
        raw_pool_unmap(&more);
        tdaemon_stop(d);
    }
}

static void a_hole_before_it_is_ready_is_refused(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_resume_proof proof;
    char text[RDMAD_TEXT_MAX + 1];
    struct raw_pool p;
    int sock = raw_offered(d, &proof);
    CHECK(raw_pool_make(sock, POOL, 0, &p) == 0, "pool");
    memset(p.base, 7, p.bytes);
    CHECK(raw_pool_ready(sock, p.handle, text) == RDMAD_E_PERM && strstr(text, "not sealed"), "%s",
          text);
    CHECK(fcntl(p.fd, F_ADD_SEALS, F_SEAL_SEAL) == 0, "%s", strerror(errno));
    punch(&p, POOL / 2, 4096);
    CHECK(raw_pool_ready(sock, p.handle, text) == RDMAD_E_PERM && strstr(text, "holes"), "%s",
          text);
    memset(p.base, 7, p.bytes);
    CHECK(raw_pool_ready(sock, p.handle, text) == 0, "%s", text);
    close(sock);
    raw_pool_unmap(&p);
    tdaemon_stop(d);
}

static void a_proof_is_for_one_session_of_one_user(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_resume_proof proof, other;
    char text[RDMAD_TEXT_MAX + 1];
    int sock = raw_offered(d, &proof), again = raw_session(tdaemon_dir(d));
    CHECK(raw_offer(sock, &other, text) == RDMAD_E_PROTOCOL, "a second offer");
    CHECK(raw_prove(again, &proof) == RDMAD_E_BUSY, "the session is there twice");
    close(sock);
    close(again);
    sleep_ms(200);
    tdaemon_kill(d);
    tdaemon_restart(d);
    for (unsigned bit = 0; bit < 8 * sizeof(proof); bit += 7) {
        other = proof;
        ((uint8_t *)&other)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        sock = raw_session(tdaemon_dir(d));
        CHECK(raw_prove(sock, &other) == RDMAD_E_PERM, "bit %u may be another", bit);
        close(sock);
    }
    sock = raw_session(tdaemon_dir(d));
    struct raw_pool p;
    CHECK(raw_pool_create(sock, 4096, 0, &p) == 0, "pool");
    CHECK(raw_prove(sock, &proof) == RDMAD_E_PROTOCOL, "a session that has a pool is resumed");
    CHECK(raw_offer(sock, &other, text) == RDMAD_E_PROTOCOL, "and offered");
    close(sock);
    raw_pool_unmap(&p);
    sock = raw_session(tdaemon_dir(d));
    CHECK(raw_prove(sock, &proof) == 0, "the proof is refused");
    json_t *shown = tdaemon_call(d, "session.show", NULL);
    const json_t *rows = json_object_get(shown, "sessions");
    const json_t *row = json_array_get(rows, json_array_size(rows) - 1); /* the newest */
    CHECK(json_is_true(json_object_get(row, "resumable")) &&
              json_is_true(json_object_get(row, "resumed")),
          "session show does not tell");
    json_decref(shown);
    close(sock);
    tdaemon_stop(d);
}

struct attempt {
    struct tdaemon *d;
    struct rdmad_resume_proof proof;
};

static void as_another(void *arg) {
    const struct attempt *a = arg;
    CHECK(setgid(65534) == 0 && setuid(65534) == 0, "%s", strerror(errno));
    int sock = raw_session(tdaemon_dir(a->d));
    CHECK(raw_prove(sock, &a->proof) == RDMAD_E_PERM, "another user's proof is taken");
    close(sock);
}

static void another_user_has_nothing_of_a_proof(void) {
    if (geteuid())
        skip("only root can be another user");
    struct attempt a = {.d = tdaemon_start("127.0.0.1", NULL)};
    int sock = raw_offered(a.d, &a.proof);
    CHECK(chmod(tdaemon_dir(a.d), 0755) == 0, "%s", strerror(errno));
    close(sock);
    tdaemon_expect_no_session(a.d); /* or it would be there twice */
    client_expect_ok(client_fork(as_another, &a));
    tdaemon_stop(a.d);
}

static void numbers_are_those_that_it_can_have_had(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_resume_proof proof;
    char text[RDMAD_TEXT_MAX + 1];
    struct raw_pool p;
    int sock = raw_offered(d, &proof);
    raw_pool_to_keep(sock, POOL, &p);
    CHECK(raw_pool_back(sock, p.handle, &p, text) == RDMAD_E_PROTOCOL, "in its first life: %s",
          text);
    close(sock);
    tdaemon_kill(d);
    tdaemon_restart(d);
    sock = raw_session(tdaemon_dir(d));
    CHECK(raw_prove(sock, &proof) == 0, "the proof is refused");
    CHECK(raw_pool_back(sock, 0, &p, text) == RDMAD_E_HANDLE, "number 0: %s", text);
    CHECK(raw_pool_back(sock, UINT64_C(1) << 32 | 65535, &p, text) == RDMAD_E_HANDLE, "65535: %s",
          text);
    CHECK(raw_pool_back(sock, UINT64_MAX, &p, text) == RDMAD_E_HANDLE, "the last: %s", text);
    CHECK(raw_pool_back(sock, p.handle, &p, text) == 0, "%s", text);
    CHECK(raw_pool_back(sock, p.handle, &p, text) == RDMAD_E_EXISTS, "twice: %s", text);
    close(sock);
    raw_pool_unmap(&p);
    tdaemon_stop(d);
}

/* What a program does to an object of its earlier life, by mistake, is done to no new one. */
static void a_number_that_did_not_come_back_is_given_to_nothing_new(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_resume_proof proof;
    struct rdmad_lease_grant_rep lease;
    struct rdmad_lease_attach_rep attached[2];
    struct raw_pool pool[2];
    char text[RDMAD_TEXT_MAX + 1];
    int sock = raw_offered(d, &proof);
    for (unsigned life = 0; life < 2; life++) {
        raw_pool_to_keep(sock, POOL, &pool[life]);
        CHECK(raw_grant(sock, &pool[life], ttl_ns, &lease, text) == 0 &&
                  raw_attach(sock, lease.uri, &attached[life], text) == 0,
              "%s", text);
        close(sock);
        tdaemon_kill(d);
        tdaemon_restart(d);
        sock = raw_session(tdaemon_dir(d));
        CHECK(raw_prove(sock, &proof) == 0, "the proof is refused");
    }
    CHECK(pool[1].handle > pool[0].handle, "a new pool has an earlier one's number");
    CHECK(attached[1].handle > attached[0].handle, "a new handle has an earlier one's number");
    close(sock);
    raw_pool_unmap(&pool[0]);
    raw_pool_unmap(&pool[1]);
    tdaemon_stop(d);
}

static void only_who_granted_a_lease_brings_it_back(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_resume_proof owner, lessee;
    struct rdmad_lease_grant_rep lease, back;
    char text[RDMAD_TEXT_MAX + 1];
    struct raw_pool p, theirs;
    struct rdmad_uri uri;
    int sock = raw_offered(d, &owner), other = raw_offered(d, &lessee);
    raw_pool_to_keep(sock, POOL, &p);
    raw_pool_to_keep(other, POOL, &theirs);
    CHECK(raw_grant(sock, &p, ttl_ns, &lease, text) == 0, "%s", text);
    CHECK(!rdmad_uri_parse(lease.uri, &uri), "%s", lease.uri);
    struct rdmad_lease_resume_req req = {
        .lease = lease.lease,
        .left_ns = ttl_ns / 2,
        .grant = {
            .pool = p.handle, .length = p.bytes, .ttl_ns = ttl_ns, .rights = RDMAD_RIGHTS_DEFAULT}};
    memcpy(req.key, uri.key, sizeof(req.key));
    close(sock);
    close(other);
    tdaemon_kill(d);
    tdaemon_restart(d);
    sock = raw_session(tdaemon_dir(d));
    other = raw_session(tdaemon_dir(d));
    CHECK(raw_prove(sock, &owner) == 0 && raw_prove(other, &lessee) == 0, "the proofs are refused");
    CHECK(raw_pool_back(sock, p.handle, &p, text) == 0, "%s", text);
    CHECK(raw_pool_back(other, theirs.handle, &theirs, text) == 0, "%s", text);
    CHECK(p.base[0] == 7 && p.base[POOL - 1] == 7, "other contents");
    /* The lessee knows number and secret, and would be asked by all others. */
    CHECK(raw_lease_back(other, &req, &back) == RDMAD_E_NO_LEASE, "a lessee brings the lease back");
    req.key[0] ^= 1;
    CHECK(raw_lease_back(sock, &req, &back) == RDMAD_E_NO_LEASE, "a wrong secret does");
    req.key[0] ^= 1;
    req.left_ns = ttl_ns + 1;
    CHECK(raw_lease_back(sock, &req, &back) == RDMAD_E_RANGE, "it grows older than it was");
    req.left_ns = 0;
    CHECK(raw_lease_back(sock, &req, &back) == RDMAD_E_LEASE_EXPIRED, "it comes back dead");
    req.left_ns = ttl_ns / 2;
    CHECK(raw_lease_back(sock, &req, &back) == 0, "its owner does not");
    CHECK(strcmp(back.uri, lease.uri) == 0, "%s is %s now", lease.uri, back.uri);
    CHECK(raw_lease_back(sock, &req, &back) == RDMAD_E_EXISTS, "it is there twice");
    CHECK(raw_revoke(sock, lease.lease) == 0, "it cannot be revoked");
    CHECK(raw_lease_back(sock, &req, &back) == RDMAD_E_LEASE_REVOKED,
          "what was revoked comes back");
    CHECK(raw_grant(sock, &p, ttl_ns, &back, text) == 0 && back.lease != lease.lease,
          "its number is given out again");
    close(sock);
    close(other);
    raw_pool_unmap(&p);
    raw_pool_unmap(&theirs);
    tdaemon_stop(d);
}

/* ---- a service's budget -------------------------------------------------------------------- */

static int service_back(int sock, const struct rdmad_service_resume_req *req, uint64_t *number) {
    struct raw_packet reply;
    int status = raw_request(sock, RDMAD_MSG_SERVICE_RESUME, req, sizeof(*req), &reply);
    if (!status)
        memcpy(number, raw_body(&reply), sizeof(*number));
    return status;
}

static void what_is_kept_of_a_budget_lies_in_it_once(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_resume_proof proof;
    char text[RDMAD_TEXT_MAX + 1];
    struct raw_packet reply;
    struct raw_pool p;
    uint64_t number, earlier;
    int sock = raw_offered(d, &proof);
    raw_pool_to_keep(sock, POOL, &p);
    struct rdmad_service_resume_req req = {.listen = {.budget_pool = p.handle,
                                                      .budget_offset = 4096,
                                                      .budget_length = POOL - 4096,
                                                      .name = "budget"},
                                           .kept = {.count = 1, .range = {{4096, 8192}}}},
                                    bad[6];
    CHECK(service_back(sock, &req, &number) == RDMAD_E_PROTOCOL, "in its first life");
    struct rdmad_service_listen_req listen = {.name = "0"};
    for (; listen.name[0] <= '9'; listen.name[0]++)
        CHECK(raw_request(sock, RDMAD_MSG_SERVICE_LISTEN, &listen, sizeof(listen), &reply) == 0,
              "%s", raw_text(&reply));
    memcpy(&earlier, raw_body(&reply), sizeof(earlier)); /* the last number */
    close(sock);
    tdaemon_kill(d);
    tdaemon_restart(d);
    sock = raw_session(tdaemon_dir(d));
    CHECK(raw_prove(sock, &proof) == 0 && raw_pool_back(sock, p.handle, &p, text) == 0, "%s", text);
    for (unsigned i = 0; i < 6; i++)
        bad[i] = req;
    bad[0].kept.count = RDMAD_KEPT_PER_REQUEST + 1;
    bad[1].kept.more = 2;
    bad[2].kept.range[0].offset = 0;
    bad[3].kept.range[0].length = POOL;
    bad[4].kept.count = 2, bad[4].kept.range[1] = req.kept.range[0];
    bad[5].kept.range[0].offset += 64;
    for (unsigned i = 0; i < 6; i++) /* and the name stays free each time */
        CHECK(service_back(sock, &bad[i], &number) == (i < 2 ? RDMAD_E_PROTOCOL : RDMAD_E_RANGE),
              "%u is taken", i);
    req.kept.more = 1;
    CHECK(service_back(sock, &req, &number) == 0, "it is not taken");
    CHECK(number > earlier, "it has a number that a service had in an earlier life");
    struct rdmad_lease_request_req ask = {.bytes = 4096, .uri = "rdmad:///budget"};
    struct rdmad_budget_resume_req rest = {.service = number, .kept = req.kept};
    CHECK(raw_request(sock, RDMAD_MSG_LEASE_REQUEST, &ask, sizeof(ask), &reply) == RDMAD_E_BUSY,
          "it gives what may be kept");
    rest.kept.range[0].offset = 4096 * 2;
    CHECK(raw_request(sock, RDMAD_MSG_BUDGET_RESUME, &rest, sizeof(rest), &reply) == RDMAD_E_RANGE,
          "twice");
    rest.kept.range[0].offset = 4096 * 3;
    rest.kept.more = 0;
    CHECK(raw_request(sock, RDMAD_MSG_BUDGET_RESUME, &rest, sizeof(rest), &reply) == 0, "%s",
          raw_text(&reply));
    CHECK(raw_request(sock, RDMAD_MSG_LEASE_REQUEST, &ask, sizeof(ask), &reply) == 0, "%s",
          raw_text(&reply));
    rest.kept.range[0].offset = 4096 * 20;
    CHECK(raw_request(sock, RDMAD_MSG_BUDGET_RESUME, &rest, sizeof(rest), &reply) == RDMAD_E_RANGE,
          "it says later what it has");
    rest.service++;
    CHECK(raw_request(sock, RDMAD_MSG_BUDGET_RESUME, &rest, sizeof(rest), &reply) == RDMAD_E_HANDLE,
          "of a service that it does not have");
    close(sock);
    raw_pool_unmap(&p);
    tdaemon_stop(d);
}

/* ---- what others made of a lease ----------------------------------------------------------- */

struct parted { /* an owner, a lessee, and what that has made of the lease */
    struct tdaemon *d;
    int owner, lessee;
    struct rdmad_resume_proof owner_proof, lessee_proof;
    struct raw_pool pool, theirs;
    struct rdmad_lease_resume_req again;
    struct rdmad_part part; /* as the owner is told */
    char uri[RDMAD_URI_MAX + 1];
};

static int grant_of(int sock, const struct raw_pool *pool, uint64_t length, const char *name,
                    struct rdmad_lease_grant_rep *out) {
    struct rdmad_lease_grant_req req = {
        .pool = pool->handle, .length = length, .ttl_ns = ttl_ns, .rights = RDMAD_RIGHTS_ALL};
    struct raw_packet reply;
    snprintf(req.name, sizeof(req.name), "%s", name);
    int status = raw_request(sock, RDMAD_MSG_LEASE_GRANT, &req, sizeof(req), &reply);
    if (!status)
        memcpy(out, raw_body(&reply), sizeof(*out));
    return status;
}

static void parted_begin(struct parted *p) {
    struct rdmad_lease_grant_rep lease, part;
    struct rdmad_lease_attach_rep attach;
    char text[RDMAD_TEXT_MAX + 1];
    struct raw_packet packet;
    struct rdmad_uri uri;
    *p = (struct parted){.d = tdaemon_start("127.0.0.1", NULL)};
    p->owner = raw_offered(p->d, &p->owner_proof);
    p->lessee = raw_offered(p->d, &p->lessee_proof);
    raw_pool_to_keep(p->owner, POOL, &p->pool);
    raw_pool_to_keep(p->lessee, POOL, &p->theirs);
    CHECK(p->pool.handle == p->theirs.handle, "their pools have different numbers");
    CHECK(grant_of(p->owner, &p->pool, POOL / 2, "", &lease) == 0, "it grants nothing");
    CHECK(!rdmad_uri_parse(lease.uri, &uri), "%s", lease.uri);
    p->again = (struct rdmad_lease_resume_req){.lease = lease.lease,
                                               .left_ns = ttl_ns / 2,
                                               .grant = {.pool = p->pool.handle,
                                                         .length = POOL / 2,
                                                         .ttl_ns = ttl_ns,
                                                         .rights = RDMAD_RIGHTS_ALL}};
    memcpy(p->again.key, uri.key, sizeof(p->again.key));
    CHECK(raw_attach(p->lessee, lease.uri, &attach, text) == 0, "%s", text);
    struct rdmad_lease_delegate_req req = {.handle = attach.handle,
                                           .offset = 4096,
                                           .length = 8192,
                                           .ttl_ns = ttl_ns / 4,
                                           .rights = RDMAD_RIGHT_READ};
    CHECK(raw_request(p->lessee, RDMAD_MSG_LEASE_DELEGATE, &req, sizeof(req), &packet) == 0, "%s",
          raw_text(&packet));
    memcpy(&part, raw_body(&packet), sizeof(part));
    memcpy(p->uri, part.uri, sizeof(p->uri));
    do
        CHECK(raw_recv(p->owner, &packet, (int)TEST_PATIENCE_MS), "the owner is told nothing");
    while (packet.header.type != RDMAD_EV_LEASE_PART);
    memcpy(&p->part, raw_body(&packet), sizeof(p->part));
    CHECK(p->part.lease == part.lease && p->part.parent == lease.lease, "of another lease");
}

static int part_back(int sock, const struct rdmad_part *part, uint64_t parent) {
    const struct rdmad_part_resume_req req = {.part = *part, .parent = parent};
    struct raw_packet reply;
    return raw_request(sock, RDMAD_MSG_PART_RESUME, &req, sizeof(req), &reply);
}

/* Both are there again with what they had, but for the lease. */
static void parted_again(struct parted *p) {
    char text[RDMAD_TEXT_MAX + 1];
    close(p->owner);
    close(p->lessee);
    tdaemon_kill(p->d);
    tdaemon_restart(p->d);
    p->owner = raw_session(tdaemon_dir(p->d));
    p->lessee = raw_session(tdaemon_dir(p->d));
    CHECK(part_back(p->owner, &p->part, p->part.parent) == RDMAD_E_PROTOCOL,
          "it is brought back to a session that was not resumed");
    CHECK(!raw_prove(p->owner, &p->owner_proof) && !raw_prove(p->lessee, &p->lessee_proof),
          "the proofs are refused");
    CHECK(raw_pool_back(p->owner, p->pool.handle, &p->pool, text) == 0, "%s", text);
    CHECK(raw_pool_back(p->lessee, p->theirs.handle, &p->theirs, text) == 0, "%s", text);
}

/* Every term by itself, as somebody would like it. */
static void wider_terms_are_refused(const struct parted *p) {
    struct rdmad_part wide[8];
    for (unsigned i = 0; i < 8; i++)
        wide[i] = p->part;
    wide[0].offset = 0;
    wide[1].length = POOL / 2 - 4096;
    wide[2].deadline_ns += ttl_ns;
    wide[3].rights = RDMAD_RIGHTS_ALL;
    wide[4].max_attaches++;
    wide[5].lease++; /* one that it never had */
    wide[6].pool++;
    wide[7].parent++;
    for (unsigned i = 0; i < 8; i++)
        CHECK(part_back(p->owner, &wide[i], p->part.parent) == RDMAD_E_NO_LEASE,
              "term %u may be another", i);
    for (unsigned bit = 0; bit < 8 * RDMAD_RESUME_SECRET_BYTES; bit += 5) {
        wide[0] = p->part;
        wide[0].proof[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(part_back(p->owner, &wide[0], p->part.parent) == RDMAD_E_NO_LEASE,
              "bit %u of the proof may be another", bit);
    }
}

static void a_part_is_brought_back_as_it_was_or_not_at_all(void) {
    struct rdmad_lease_grant_rep back, plain, named, theirs;
    struct rdmad_lease_attach_rep attach;
    char text[RDMAD_TEXT_MAX + 1];
    struct parted p;
    parted_begin(&p);
    parted_again(&p);
    uint64_t parent = p.part.parent;
    CHECK(part_back(p.owner, &p.part, parent) == RDMAD_E_NO_LEASE, "without what it is a part of");
    CHECK(raw_lease_back(p.owner, &p.again, &back) == 0, "its owner does not bring the lease back");
    CHECK(part_back(p.lessee, &p.part, parent) == RDMAD_E_NO_LEASE, "who made it brings it back");
    wider_terms_are_refused(&p);
    CHECK(!grant_of(p.owner, &p.pool, POOL, "", &plain) &&
              !grant_of(p.owner, &p.pool, 8192, "narrow", &named) &&
              !grant_of(p.lessee, &p.theirs, POOL, "theirs", &theirs),
          "no lease");
    CHECK(part_back(p.owner, &p.part, theirs.lease) == RDMAD_E_NO_LEASE, "in another's memory");
    CHECK(part_back(p.owner, &p.part, plain.lease) == RDMAD_E_NO_LEASE, "as a part of another");
    CHECK(part_back(p.owner, &p.part, named.lease) == RDMAD_E_RANGE, "of one that is narrower");
    CHECK(raw_attach(p.lessee, p.uri, &attach, text) == RDMAD_E_NO_LEASE, "it is there already");
    CHECK(part_back(p.owner, &p.part, parent) == 0, "it does not come back");
    CHECK(part_back(p.owner, &p.part, parent) == RDMAD_E_EXISTS, "it is there twice");
    CHECK(raw_attach(p.lessee, p.uri, &attach, text) == 0, "%s", text);
    CHECK(attach.length == 8192 && attach.rights == RDMAD_RIGHT_READ && attach.ttl_ns <= ttl_ns / 4,
          "%llu bytes, rights %u, %llu ns", (unsigned long long)attach.length, attach.rights,
          (unsigned long long)attach.ttl_ns);
    CHECK(raw_revoke(p.owner, parent) == 0, "it cannot be revoked");
    CHECK(raw_attach(p.lessee, p.uri, &attach, text) == RDMAD_E_LEASE_REVOKED, "%s", text);
    CHECK(part_back(p.owner, &p.part, parent) == RDMAD_E_NO_LEASE, "it outlives its lease");
    CHECK(part_back(p.owner, &p.part, plain.lease) == RDMAD_E_NO_LEASE, "it outlives its lease");
    close(p.owner);
    close(p.lessee);
    raw_pool_unmap(&p.pool);
    raw_pool_unmap(&p.theirs);
    tdaemon_stop(p.d);
}

TEST_MAIN(CASE(a_hole_costs_its_maker_the_session_and_the_daemon_no_page),
          CASE(a_hole_before_it_is_ready_is_refused), CASE(a_proof_is_for_one_session_of_one_user),
          CASE(another_user_has_nothing_of_a_proof), CASE(numbers_are_those_that_it_can_have_had),
          CASE(a_number_that_did_not_come_back_is_given_to_nothing_new),
          CASE(only_who_granted_a_lease_brings_it_back),
          CASE(a_part_is_brought_back_as_it_was_or_not_at_all),
          CASE(what_is_kept_of_a_budget_lies_in_it_once))
