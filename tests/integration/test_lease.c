/* SPDX-License-Identifier: MIT */
/*
 * test_lease.c - what a lease promises, with real daemons: it ends when it should, whoever asks is
 * told why, both clients hear of it, and afterwards the memory is the owner's alone.
 *
 * Most promises are kept the same on one daemon (route local) and between two (route link).
 */
#include "tests/support/client.h"
#include "tests/support/procs.h"
#include "tests/support/rawclient.h"

#include <rdmad/rdmad.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 64 << 10 };

/* Two daemons; a client of the first owns, one of the second (or of the same) borrows. */
struct pair {
    struct tdaemon *a, *b;
    rdmad_session *owner, *lessee;
    rdmad_pool *owner_pool, *lessee_pool;
    char *theirs; /* the owner's memory */
    char *mine;   /* the lessee's */
};

static void open_owner(struct pair *p) {
    p->owner = client_open(p->a);
    CHECK(!rdmad_pool_create(p->owner, BYTES, 0, &p->owner_pool), "%s", rdmad_last_error(NULL));
    p->theirs = rdmad_pool_base(p->owner_pool);
}

static void open_lessee(struct pair *p, const struct tdaemon *d) {
    p->lessee = client_open(d);
    CHECK(!rdmad_pool_create(p->lessee, BYTES, 0, &p->lessee_pool), "%s", rdmad_last_error(NULL));
    p->mine = rdmad_pool_base(p->lessee_pool);
}

static struct pair pair_open(bool link) {
    struct pair p = {.a = tdaemon_start("127.0.0.1", NULL)};
    if (link)
        p.b = tdaemon_start("127.0.0.2", NULL);
    open_owner(&p);
    open_lessee(&p, link ? p.b : p.a);
    return p;
}

static void pair_close(struct pair *p) {
    rdmad_close(p->lessee);
    rdmad_close(p->owner);
    if (p->b)
        tdaemon_stop(p->b);
    tdaemon_stop(p->a);
}

static rdmad_lease *grant_terms(struct pair *p, const struct rdmad_lease_terms *t) {
    rdmad_lease *l;
    CHECK(!rdmad_lease_grant(p->owner, p->theirs, BYTES, t, &l), "%s", rdmad_last_error(p->owner));
    return l;
}

static rdmad_lease *grant(struct pair *p, uint64_t ttl_ms) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    t.ttl_ms = ttl_ms;
    return grant_terms(p, &t);
}

static rdmad_lease *attach(struct pair *p, const char *uri) {
    rdmad_lease *l;
    CHECK(!rdmad_lease_attach(p->lessee, uri, 0, &l), "%s", rdmad_last_error(p->lessee));
    return l;
}

static uint64_t number(const rdmad_lease *l) {
    struct rdmad_lease_info i = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(l, &i);
    return i.id;
}

static const char *fabric(const rdmad_lease *l) {
    struct rdmad_lease_info i = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(l, &i);
    return i.fabric;
}

static void expect_words(const char *text, const char *words) {
    CHECK(strstr(text, words), "\"%s\" does not say \"%s\"", text, words);
}

/* The last error of s names the lease and has these words. */
static void expect_error(const rdmad_session *s, const rdmad_lease *l, const char *words) {
    char named[40];
    snprintf(named, sizeof(named), "lease %llu", (unsigned long long)number(l));
    expect_words(rdmad_last_error(s), named);
    expect_words(rdmad_last_error(s), words);
}

static void expect_refused(struct pair *p, const char *uri, int code, const char *words) {
    rdmad_lease *l;
    int rc = rdmad_lease_attach(p->lessee, uri, 0, &l);
    CHECK(rc == code, "attach: %s, not %s: %s", rdmad_errname(rc), rdmad_errname(code),
          rdmad_last_error(p->lessee));
    expect_words(rdmad_last_error(p->lessee), words);
}

static void expect_event(rdmad_session *s, unsigned type, int reason, const rdmad_lease *l) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    int rc = rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e);
    CHECK(!rc, "no event: %s", rdmad_errname(rc));
    CHECK(e.type == type && e.reason == reason && e.lease == l, "event %u, %s: %s", e.type,
          rdmad_errname(e.reason), e.text);
}

static void expect_silence(rdmad_session *s) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    int rc = rdmad_next_event(s, 100, &e);
    CHECK(rc == RDMAD_E_TIMEOUT, "event %u, %s: %s", e.type, rdmad_errname(e.reason), e.text);
}

static void works(struct pair *p, rdmad_lease *l, const char *word) {
    strcpy(p->mine, word);
    CHECK(!rdmad_write(l, 100, p->mine, strlen(word) + 1), "%s", rdmad_last_error(p->lessee));
    CHECK(strcmp(p->theirs + 100, word) == 0, "the write is not there");
    memset(p->mine, 0, 64);
    CHECK(!rdmad_read(l, 100, p->mine, strlen(word) + 1), "%s", rdmad_last_error(p->lessee));
    CHECK(strcmp(p->mine, word) == 0, "the read brought something else");
}

static void fails(struct pair *p, rdmad_lease *l, int code) {
    char before[64];
    memcpy(before, p->theirs, sizeof(before));
    memset(p->mine, 0x5a, sizeof(before));
    int rc = rdmad_write(l, 0, p->mine, sizeof(before));
    CHECK(rc == code, "write: %s, not %s: %s", rdmad_errname(rc), rdmad_errname(code),
          rdmad_last_error(p->lessee));
    CHECK(rdmad_last_outcome() == RDMAD_FAILED_UNTOUCHED, "outcome %d", rdmad_last_outcome());
    CHECK(memcmp(before, p->theirs, sizeof(before)) == 0, "a refused write changed the memory");
}

/* ---- expiry ---------------------------------------------------------------------------------- */

static void expires(bool link) {
    struct pair p = pair_open(link);
    uint64_t start = now_ms();
    rdmad_lease *own = grant(&p, 4000);
    rdmad_lease *l = attach(&p, rdmad_lease_uri(own));
    works(&p, l, "at once");
    while (now_ms() < start + 1000)
        sleep_ms(5);
    works(&p, l, "after a second"); /* a busy machine has three more for it */
    while (now_ms() < start + 4100)
        sleep_ms(5);
    fails(&p, l, RDMAD_E_LEASE_EXPIRED);
    expect_error(p.lessee, l, "expired");
    expect_event(p.lessee, RDMAD_EVENT_LEASE_ENDED, RDMAD_E_LEASE_EXPIRED, l);
    expect_event(p.owner, RDMAD_EVENT_LEASE_ENDED, RDMAD_E_LEASE_EXPIRED, own);
    fails(&p, l, RDMAD_E_LEASE_EXPIRED); /* also after the event */
    expect_refused(&p, rdmad_lease_uri(own), RDMAD_E_LEASE_EXPIRED, "expired");
    expect_error(p.lessee, l, "ask its owner for a new one");
    expect_silence(p.lessee);
    expect_silence(p.owner);
    rdmad_lease_free(l);
    rdmad_lease_free(own);
    pair_close(&p);
}
static void expires_local(void) {
    expires(false);
}
static void expires_link(void) {
    expires(true);
}

/* ---- revoke and release ---------------------------------------------------------------------- */

static void is_revoked(bool link) {
    struct pair p = pair_open(link);
    rdmad_lease *own = grant(&p, 60000);
    rdmad_lease *l = attach(&p, rdmad_lease_uri(own)), *second = attach(&p, rdmad_lease_uri(own));
    works(&p, l, "before");
    works(&p, second, "and by another handle");
    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(p.owner));
    fails(&p, l, RDMAD_E_LEASE_REVOKED);
    expect_error(p.lessee, l, "revoked");
    fails(&p, second, RDMAD_E_LEASE_REVOKED);
    expect_event(p.owner, RDMAD_EVENT_LEASE_ENDED, RDMAD_E_LEASE_REVOKED, own);
    expect_silence(p.owner);
    CHECK(!rdmad_lease_revoke(own), "a second revoke: %s", rdmad_last_error(p.owner));
    expect_refused(&p, rdmad_lease_uri(own), RDMAD_E_LEASE_REVOKED, "revoked by its owner");
    rdmad_lease_free(l);
    rdmad_lease_free(second);
    rdmad_lease_free(own);
    CHECK(!rdmad_pool_destroy(p.owner_pool), "%s", rdmad_last_error(p.owner));
    pair_close(&p);
}
static void is_revoked_local(void) {
    is_revoked(false);
}
static void is_revoked_link(void) {
    is_revoked(true);
}

static void is_for_one(bool link) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    struct pair p = pair_open(link);
    t.max_attaches = 1;
    rdmad_lease *own = grant_terms(&p, &t);
    rdmad_lease *l = attach(&p, rdmad_lease_uri(own));
    expect_refused(&p, rdmad_lease_uri(own), RDMAD_E_LIMIT, "has 1 of the 1 lessees");
    works(&p, l, "for one");
    rdmad_lease_free(l);
    expect_event(p.owner, RDMAD_EVENT_LEASE_ENDED, RDMAD_E_LEASE_RELEASED, own);
    expect_refused(&p, rdmad_lease_uri(own), RDMAD_E_LEASE_RELEASED, "released");
    rdmad_lease_free(own);
    pair_close(&p);
}
static void is_for_one_local(void) {
    is_for_one(false);
}
static void is_for_one_link(void) {
    is_for_one(true);
}

static void has_rights(bool link) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    struct pair p = pair_open(link);
    t.rights = RDMAD_RIGHT_READ;
    rdmad_lease *own = grant_terms(&p, &t);
    rdmad_lease *l = attach(&p, rdmad_lease_uri(own));
    fails(&p, l, RDMAD_E_RIGHTS);
    strcpy(p.theirs, "readable");
    CHECK(!rdmad_read(l, 0, p.mine, 9), "%s", rdmad_last_error(p.lessee));
    CHECK(strcmp(p.mine, "readable") == 0, "the read brought something else");
    CHECK(rdmad_read(l, BYTES - 1, p.mine, 2) == RDMAD_E_RANGE, "a read beyond the end");
    pair_close(&p);
}
static void has_rights_local(void) {
    has_rights(false);
}
static void has_rights_link(void) {
    has_rights(true);
}

/* ---- renew ----------------------------------------------------------------------------------- */

static void is_renewed(bool link) {
    struct pair p = pair_open(link);
    uint64_t start = now_ms();
    rdmad_lease *own = grant(&p, 3000);
    rdmad_lease *l = attach(&p, rdmad_lease_uri(own));
    CHECK(!rdmad_lease_renew(own, 60000), "%s", rdmad_last_error(p.owner));
    expect_event(p.lessee, RDMAD_EVENT_LEASE_RENEWED, 0, l);
    while (now_ms() < start + 3200)
        sleep_ms(5);
    works(&p, l, "beyond the first deadline");
    CHECK(!rdmad_lease_renew(own, 200), "%s", rdmad_last_error(p.owner)); /* shorter */
    uint64_t renewed = now_ms();
    while (now_ms() < renewed + 300)
        sleep_ms(5);
    fails(&p, l, RDMAD_E_LEASE_EXPIRED);
    expect_event(p.owner, RDMAD_EVENT_LEASE_ENDED, RDMAD_E_LEASE_EXPIRED, own);
    CHECK(rdmad_lease_renew(own, 1000) == RDMAD_E_LEASE_EXPIRED, "an ended lease is renewed");
    rdmad_lease_free(l);
    pair_close(&p);
}
static void is_renewed_local(void) {
    is_renewed(false);
}
static void is_renewed_link(void) {
    is_renewed(true);
}

/* A lessee that is busy elsewhere and reads no events keeps its session, however often its owner
 * renews, and hears of the last renewal in the end. */
static void is_renewed_without_end(bool link) {
    struct pair p = pair_open(link);
    rdmad_lease *own = grant(&p, 60000);
    rdmad_lease *l = attach(&p, rdmad_lease_uri(own));
    struct rdmad_lease_info i = RDMAD_LEASE_INFO_INIT;
    for (unsigned n = 0; n < 12000; n++)
        CHECK(!rdmad_lease_renew(own, 60000), "%s", rdmad_last_error(p.owner));
    CHECK(!rdmad_lease_renew(own, 3000000), "%s", rdmad_last_error(p.owner));
    works(&p, l, "the session lives");
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    do {
        struct rdmad_event e = RDMAD_EVENT_INIT;
        CHECK(now_ms() < deadline, "the last renewal is never told");
        (void)rdmad_next_event(p.lessee, 10, &e);
        rdmad_lease_get_info(l, &i);
    } while (i.ttl_ms < 2000000ull);
    pair_close(&p);
}
static void is_renewed_without_end_local(void) {
    is_renewed_without_end(false);
}
static void is_renewed_without_end_link(void) {
    is_renewed_without_end(true);
}

/* ---- names, scopes, secrets ------------------------------------------------------------------ */

static void names(void) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    struct pair p = pair_open(true);
    char uri[100];
    rdmad_lease *again;
    t.name = "weights.v1";
    snprintf(uri, sizeof(uri), "rdmad://%s/weights.v1", tdaemon_listen(p.a));
    expect_refused(&p, uri, RDMAD_E_NO_LEASE, "weights.v1");
    rdmad_lease *own = grant_terms(&p, &t);
    CHECK(strcmp(rdmad_lease_uri(own), uri) == 0, "%s is not %s", rdmad_lease_uri(own), uri);
    works(&p, attach(&p, uri), "by name");
    CHECK(rdmad_lease_grant(p.owner, p.theirs, 1, &t, &again) == RDMAD_E_EXISTS, "a name twice");

    rdmad_session *remote = p.lessee;
    open_lessee(&p, p.a);
    works(&p, attach(&p, "rdmad:///weights.v1"), "on the same daemon");
    rdmad_close(p.lessee);
    p.lessee = remote;

    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(p.owner));
    expect_refused(&p, uri, RDMAD_E_NO_LEASE, "weights.v1");
    grant_terms(&p, &t); /* the name is free again */
    pair_close(&p);
}

static void scopes(void) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    struct pair p = pair_open(true);
    struct tdaemon *c = tdaemon_start("127.0.0.3", NULL);
    t.scope = RDMAD_SCOPE_PEER;
    t.scope_peer = "127.0.0.2";
    rdmad_lease *peer = grant_terms(&p, &t);
    t = (struct rdmad_lease_terms)RDMAD_LEASE_TERMS_INIT;
    t.scope = RDMAD_SCOPE_UID;
    t.scope_uid = (uint32_t)getuid();
    rdmad_lease *uid = grant_terms(&p, &t);
    t.scope_uid++;
    rdmad_lease *other = grant_terms(&p, &t);

    works(&p, attach(&p, rdmad_lease_uri(peer)), "the right peer");
    expect_refused(&p, rdmad_lease_uri(uid), RDMAD_E_SCOPE, "on its owner's node only");
    rdmad_close(p.lessee);
    open_lessee(&p, c);
    expect_refused(&p, rdmad_lease_uri(peer), RDMAD_E_SCOPE, "127.0.0.2 only");
    rdmad_close(p.lessee);
    open_lessee(&p, p.a);
    expect_refused(&p, rdmad_lease_uri(peer), RDMAD_E_SCOPE, "127.0.0.2 only");
    expect_refused(&p, rdmad_lease_uri(other), RDMAD_E_SCOPE, "is for uid");
    works(&p, attach(&p, rdmad_lease_uri(uid)), "the right uid");
    pair_close(&p);
    tdaemon_stop(c);
}

/* A wrong key, also of a lease that ended, is answered like a lease that never was. */
static void secrets(bool link) {
    struct pair p = pair_open(link);
    char uri[RDMAD_URI_MAX + 1], words[60];
    rdmad_lease *own = grant(&p, 60000);
    strcpy(uri, rdmad_lease_uri(own));
    char *last = uri + strlen(uri) - 1;
    *last = *last == '0' ? '1' : '0';
    snprintf(words, sizeof(words), "there is no lease %llu with this key",
             (unsigned long long)number(own));
    expect_refused(&p, uri, RDMAD_E_NO_LEASE, words);
    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(p.owner));
    expect_refused(&p, uri, RDMAD_E_NO_LEASE, words);
    snprintf(uri, sizeof(uri), "rdmad://%s/lease/999?key=00112233445566778899aabbccddeeff",
             tdaemon_listen(p.a));
    expect_refused(&p, uri, RDMAD_E_NO_LEASE, "there is no lease 999 with this key");
    pair_close(&p);
}
static void secrets_local(void) {
    secrets(false);
}
static void secrets_link(void) {
    secrets(true);
}

/* Numbers are easy to guess: what they name is asked for by its owner alone. */
static void is_its_owners_alone(void) {
    struct pair p = pair_open(false);
    rdmad_lease *own = grant(&p, 60000), *l = attach(&p, rdmad_lease_uri(own));
    int thief = raw_session(tdaemon_dir(p.a));
    struct raw_packet reply;
    struct rdmad_lease_revoke_req revoke = {.lease = number(own)};
    struct rdmad_lease_renew_req renew = {.lease = number(own), .ttl_ns = 1};
    struct rdmad_lease_stat_req stat = {.lease = number(own)};
    struct rdmad_lease_audit audit = RDMAD_LEASE_AUDIT_INIT;
    works(&p, l, "mine");
    for (int ended = 0; ended < 2; ended++) {
        int rc = raw_request(thief, RDMAD_MSG_LEASE_REVOKE, &revoke, sizeof(revoke), &reply);
        CHECK(rc == RDMAD_E_NO_LEASE, "revoke: %s", rdmad_errname(rc));
        rc = raw_request(thief, RDMAD_MSG_LEASE_RENEW, &renew, sizeof(renew), &reply);
        CHECK(rc == RDMAD_E_NO_LEASE, "renew: %s", rdmad_errname(rc));
        rc = raw_request(thief, RDMAD_MSG_LEASE_STAT, &stat, sizeof(stat), &reply);
        CHECK(rc == RDMAD_E_NO_LEASE, "stat: %s", rdmad_errname(rc));
        if (!ended)
            works(&p, l, "still mine");
        CHECK(ended || !rdmad_lease_revoke(own), "%s", rdmad_last_error(p.owner));
        CHECK(!rdmad_lease_get_audit(own, &audit), "%s", rdmad_last_error(p.owner));
        CHECK(audit.bytes_written == 16 && audit.bytes_read == 16, "%llu written, %llu read",
              (unsigned long long)audit.bytes_written, (unsigned long long)audit.bytes_read);
        CHECK(audit.attached == 0 && audit.attached_total == 1, "attached %u of %u", audit.attached,
              audit.attached_total);
    }
    close(thief);
    pair_close(&p);
}

/* ---- somebody dies --------------------------------------------------------------------------- */

struct victim {
    const struct tdaemon *d;
    int to;
};

static void own_and_sleep(void *arg) {
    const struct victim *v = arg;
    struct pair p = {.a = (struct tdaemon *)v->d};
    open_owner(&p);
    const char *uri = rdmad_lease_uri(grant(&p, 60000));
    CHECK(write(v->to, uri, strlen(uri) + 1) > 0, "the test is gone");
    for (;;)
        pause();
}

static void is_orphaned(bool link) {
    struct pair p = pair_open(link);
    char uri[RDMAD_URI_MAX + 1] = "";
    int fds[2];
    CHECK(!pipe(fds), "pipe");
    struct victim v = {.d = p.a, .to = fds[1]};
    pid_t pid = client_fork(own_and_sleep, &v);
    CHECK(read(fds[0], uri, sizeof(uri)) > 0, "the owner says nothing");
    rdmad_lease *l = attach(&p, uri);
    client_kill(pid);
    expect_event(p.lessee, RDMAD_EVENT_LEASE_ENDED, RDMAD_E_LEASE_ORPHANED, l);
    CHECK(rdmad_write(l, 0, p.mine, 8) == RDMAD_E_LEASE_ORPHANED, "a lease without an owner");
    expect_error(p.lessee, l, "owner");
    expect_refused(&p, uri, RDMAD_E_LEASE_ORPHANED, "its owner is gone");
    close(fds[0]);
    close(fds[1]);
    pair_close(&p);
}
static void is_orphaned_local(void) {
    is_orphaned(false);
}
static void is_orphaned_link(void) {
    is_orphaned(true);
}

static void owners_daemon_dies(void) {
    struct pair p = pair_open(true);
    rdmad_lease *own = grant(&p, 60000);
    rdmad_lease *l = attach(&p, rdmad_lease_uri(own));
    works(&p, l, "before");
    tdaemon_kill(p.a);
    expect_event(p.lessee, RDMAD_EVENT_LEASE_ENDED, RDMAD_E_PEER_LOST, l);
    CHECK(rdmad_write(l, 0, p.mine, 8) == RDMAD_E_PEER_LOST, "a lease of a dead daemon");
    expect_refused(&p, rdmad_lease_uri(own), RDMAD_E_UNREACHABLE, "cannot be reached");
    rdmad_close(p.owner);
    tdaemon_restart(p.a);
    open_owner(&p);
    rdmad_lease *anew = grant(&p, 60000);
    works(&p, attach(&p, rdmad_lease_uri(anew)), "after the restart");
    pair_close(&p);
}

static void lessees_daemon_dies(void) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    struct pair p = pair_open(true);
    t.max_attaches = 1;
    rdmad_lease *own = grant_terms(&p, &t);
    works(&p, attach(&p, rdmad_lease_uri(own)), "before");
    tdaemon_kill(p.b);
    rdmad_close(p.lessee);
    tdaemon_restart(p.b);
    open_lessee(&p, p.b);
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    rdmad_lease *l;
    while (rdmad_lease_attach(p.lessee, rdmad_lease_uri(own), 0, &l)) {
        CHECK(now_ms() < deadline, "the place is not free again: %s", rdmad_last_error(p.lessee));
        sleep_ms(10);
    }
    works(&p, l, "after the restart");
    pair_close(&p);
}

/* A lessee's daemon that hangs cannot hold a revoke up, nor write when it wakes. */
static void lessees_daemon_hangs(void) {
    struct pair p = pair_open(true);
    rdmad_lease *own = grant(&p, 60000);
    rdmad_lease *l = attach(&p, rdmad_lease_uri(own));
    works(&p, l, "before");
    process_stop(tdaemon_pid(p.b));
    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(p.owner));
    process_go_on(tdaemon_pid(p.b));
    char before[64];
    memcpy(before, p.theirs, sizeof(before));
    memset(p.mine, 0x11, sizeof(before));
    CHECK(rdmad_write(l, 0, p.mine, sizeof(before)) != 0, "a write after the revoke");
    CHECK(memcmp(before, p.theirs, sizeof(before)) == 0, "it changed the memory");
    expect_event(p.lessee, RDMAD_EVENT_LEASE_ENDED, RDMAD_E_LEASE_REVOKED, l);
    pair_close(&p);
}

/* ---- dialling -------------------------------------------------------------------------------- */

static void unreachable(void) {
    struct pair p = pair_open(false);
    const char *key = "key=00112233445566778899aabbccddeeff";
    char uri[200];
    rdmad_lease *l;
    snprintf(uri, sizeof(uri), "rdmad://127.0.0.1:1/lease/1?%s", key);
    expect_refused(&p, uri, RDMAD_E_UNREACHABLE, "127.0.0.1:1 cannot be reached");
    snprintf(uri, sizeof(uri), "rdmad://no-such-host.invalid:7471/lease/1?%s", key);
    int rc = rdmad_lease_attach(p.lessee, uri, 2000, &l);
    CHECK(rc == RDMAD_E_UNREACHABLE || rc == RDMAD_E_TIMEOUT, "%s", rdmad_errname(rc));
    expect_words(rdmad_last_error(p.lessee), "no-such-host.invalid");

    struct tdaemon *hung = tdaemon_start("127.0.0.4", NULL);
    process_stop(tdaemon_pid(hung));
    snprintf(uri, sizeof(uri), "rdmad://%s/lease/1?%s", tdaemon_listen(hung), key);
    uint64_t start = now_ms();
    rc = rdmad_lease_attach(p.lessee, uri, 300, &l);
    CHECK(rc == RDMAD_E_TIMEOUT, "%s: %s", rdmad_errname(rc), rdmad_last_error(p.lessee));
    expect_words(rdmad_last_error(p.lessee), "longer than 300 ms");
    CHECK(now_ms() - start < 300 + TEST_PATIENCE_MS, "the timeout took %llu ms",
          (unsigned long long)(now_ms() - start));
    process_go_on(tdaemon_pid(hung));
    tdaemon_stop(hung);
    pair_close(&p);
}

/* The owner's daemon by another of its names is not a peer. */
static void dialling_oneself(void) {
    struct pair p = {.a = tdaemon_start("127.0.0.1", NULL)};
    open_owner(&p);
    open_lessee(&p, p.a);
    rdmad_lease *own = grant(&p, 60000);
    const char *rest = strchr(rdmad_lease_uri(own) + strlen("rdmad://"), ':');
    char uri[RDMAD_URI_MAX + 1];
    snprintf(uri, sizeof(uri), "rdmad://localhost%s", rest);
    rdmad_lease *l = attach(&p, uri);
    CHECK(strcmp(fabric(l), "local") == 0, "fabric %s", fabric(l));
    works(&p, l, "by another name");
    pair_close(&p);
}

/* ---- nothing is left ------------------------------------------------------------------------- */

static void nothing_is_left(void) {
    struct pair p = pair_open(true);
    rdmad_lease *first = grant(&p, 60000), *there = attach(&p, rdmad_lease_uri(first));
    works(&p, there, "the library makes its ring when it is first needed");
    rdmad_lease_free(there);
    rdmad_lease_free(first);
    json_t *a = tdaemon_objects_of_clients(p.a), *b = tdaemon_objects_of_clients(p.b);
    for (unsigned i = 0; i < 200; i++) {
        struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
        t.max_attaches = i % 2;
        rdmad_lease *own = grant_terms(&p, &t), *l = attach(&p, rdmad_lease_uri(own));
        if (i % 3)
            works(&p, l, "again and again");
        if (i % 5 == 0)
            CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(p.owner));
        rdmad_lease_free(l);
        rdmad_lease_free(own);
    }
    tdaemon_expect_objects(p.a, a);
    tdaemon_expect_objects(p.b, b);
    pair_close(&p);
}

TEST_MAIN(CASE(expires_local), CASE(expires_link), CASE(is_revoked_local), CASE(is_revoked_link),
          CASE(is_for_one_local), CASE(is_for_one_link), CASE(has_rights_local),
          CASE(has_rights_link), CASE(is_renewed_local), CASE(is_renewed_link),
          CASE(is_renewed_without_end_local), CASE(is_renewed_without_end_link), CASE(names),
          CASE(scopes), CASE(secrets_local), CASE(secrets_link), CASE(is_its_owners_alone),
          CASE(is_orphaned_local), CASE(is_orphaned_link), CASE(owners_daemon_dies),
          CASE(lessees_daemon_dies), CASE(lessees_daemon_hangs), CASE(unreachable),
          CASE(dialling_oneself), CASE(nothing_is_left))
