/* SPDX-License-Identifier: MIT */
/* librdmad's talk with a daemon: errors in full words, events that are not lost, a daemon that dies
 * or lies. The daemon is tests/unit/fake_daemon.c. */
#include "tests/unit/fake_daemon.h"

#include "common/memfd.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <rdmad/rdmad.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fake_daemon fake;
static rdmad_session *s;

static void connect_fake(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;

    fake_start(&fake);
    o.runtime_dir = fake.dir;
    cr_assert_eq(rdmad_open(&o, &s), 0, "%s", rdmad_last_error(NULL));
}

static void disconnect(void) {
    rdmad_close(s);
    fake_stop(&fake);
}

static void says(const char *words) {
    cr_assert_not_null(strstr(rdmad_last_error(s), words), "\"%s\" lacks \"%s\"",
                       rdmad_last_error(s), words);
}

static unsigned open_fds(void) {
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static bool readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

TestSuite(client, .init = connect_fake, .fini = disconnect, .timeout = 20);
TestSuite(hooked, .fini = disconnect, .timeout = 20); /* they connect by use_hook */

/* ---- no daemon ------------------------------------------------------------------------------ */

Test(open, without_a_daemon_says_which_socket_and_what_to_do) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    char longest[200];

    o.runtime_dir = "/nonexistent";
    cr_assert_eq(rdmad_open(&o, &s), RDMAD_E_NO_DAEMON);
    cr_assert_null(s);
    cr_assert_not_null(strstr(rdmad_last_error(NULL), "/nonexistent/rdmad.sock"));
    cr_assert_not_null(strstr(rdmad_last_error(NULL), "start rdmad"));
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    o.runtime_dir = longest;
    cr_assert_eq(rdmad_open(&o, &s), RDMAD_E_INVAL);
    o.size = 3;
    cr_assert_eq(rdmad_open(&o, &s), RDMAD_E_INVAL);
    cr_assert_not_null(strstr(rdmad_last_error(NULL), "RDMAD_OPTIONS_INIT"));
}

Test(open, leaves_no_descriptor_behind) {
    unsigned before = open_fds();

    memset(&fake, 0, sizeof(fake));
    connect_fake();
    cr_assert_geq(rdmad_session_fd(s), 0);
    rdmad_ring *ring;
    rdmad_pool *pool;
    cr_assert_eq(rdmad_ring_create(s, 8, &ring), 0);
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &pool), 0);
    disconnect();
    cr_assert_eq(open_fds(), before);
}

static bool hook_refuse_hello(struct fake_daemon *f, const struct rdmad_msg_header *h,
                              const void *body) {
    (void)body;
    fake_refuse(f, h, RDMAD_E_LIMIT, "uid 1000 has 4 of 4 sessions: close one");
    return true;
}

Test(open, hands_on_the_daemons_own_words) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;

    fake.hook = hook_refuse_hello;
    fake_start(&fake);
    o.runtime_dir = fake.dir;
    cr_assert_eq(rdmad_open(&o, &s), RDMAD_E_LIMIT);
    cr_assert_str_eq(rdmad_last_error(NULL), "uid 1000 has 4 of 4 sessions: close one");
    fake_stop(&fake);
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool hook_hang_up(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const void *body) {
    (void)body;
    if (h->type == RDMAD_MSG_HELLO)
        return false;
    fake_hang_up(f);
    return true;
}

static void use_hook(bool (*hook)(struct fake_daemon *, const struct rdmad_msg_header *,
                                  const void *)) {
    fake.hook = hook;
    connect_fake();
}

Test(hooked, a_daemon_that_dies_in_a_request_ends_it_at_once) {
    rdmad_pool *pool;
    struct rdmad_event e = RDMAD_EVENT_INIT;

    use_hook(hook_hang_up);
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &pool), RDMAD_E_DAEMON_LOST);
    says("closed the connection");
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &pool), RDMAD_E_DAEMON_LOST, "and all later ones");
    cr_assert_eq(rdmad_next_event(s, -1, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST);
    cr_assert_eq(rdmad_next_event(s, -1, &e), RDMAD_E_DAEMON_LOST, "said once, and no hang");
}

static void bad_reply(struct fake_daemon *f, const struct rdmad_msg_header *h, unsigned kind) {
    struct rdmad_pool_create_rep rep = {.pool = 11, .bytes = 4096};
    uint16_t type = h->type | RDMAD_MSG_REPLY;
    size_t bytes = 4096;
    int fd = rdmad_memfd_create("short", &bytes, false), pair[2];

    switch (kind) {
    case 0: /* no descriptor */
        fake_send(f, type, h->seq, 0, &rep, sizeof(rep), NULL, 0);
        break;
    case 1: /* too short */
        fake_send(f, type, h->seq, 0, &rep, sizeof(rep) - 8, &fd, 1);
        break;
    case 2: /* another request's reply */
        fake_send(f, RDMAD_MSG_RING_CREATE | RDMAD_MSG_REPLY, h->seq, 0, &rep, sizeof(rep), &fd, 1);
        break;
    case 3: /* a positive status */
        fake_send(f, type, h->seq, 5, &rep, sizeof(rep), &fd, 1);
        break;
    case 4: /* a promise that the memory does not keep */
        rep.bytes = 1 << 20;
        fake_send(f, type, h->seq, 0, &rep, sizeof(rep), &fd, 1);
        break;
    case 5: /* no memory at all */
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
            fake_send(f, type, h->seq, 0, &rep, sizeof(rep), &pair[0], 1);
            close(pair[0]);
            close(pair[1]);
        }
        break;
    default: /* an error with a descriptor */
        fake_send(f, type, h->seq, RDMAD_E_LIMIT, &(struct rdmad_msg_error){.text = "no"},
                  sizeof(struct rdmad_msg_error), &fd, 1);
        break;
    }
    close(fd);
}

static unsigned bad_kind;

static bool hook_bad_reply(struct fake_daemon *f, const struct rdmad_msg_header *h,
                           const void *body) {
    (void)body;
    if (h->type != RDMAD_MSG_POOL_CREATE)
        return false;
    bad_reply(f, h, bad_kind);
    return true;
}

Test(replies, of_the_wrong_shape_are_refused_without_losing_a_descriptor) {
    unsigned before = open_fds();
    rdmad_pool *pool;

    for (bad_kind = 0; bad_kind < 7; bad_kind++) {
        memset(&fake, 0, sizeof(fake));
        use_hook(hook_bad_reply);
        int rc = rdmad_pool_create(s, 4096, 0, &pool);
        cr_assert(rc == RDMAD_E_DAEMON_LOST || rc == RDMAD_E_PROTOCOL, "kind %u: %d", bad_kind, rc);
        cr_assert_null(pool);
        disconnect();
        cr_assert_eq(open_fds(), before, "kind %u", bad_kind);
    }
}

Test(client, a_foreign_pointer_is_named_before_anything_is_asked) {
    rdmad_lease *lease;
    char mine[64];

    cr_assert_eq(rdmad_lease_grant(s, mine, 64, NULL, &lease), RDMAD_E_RANGE);
    says("in no pool of this session");
}

/* ---- leases and events ---------------------------------------------------------------------- */

static bool hook_end_at_once(struct fake_daemon *f, const struct rdmad_msg_header *h,
                             const void *body) {
    struct rdmad_lease_attach_rep rep = {.handle = 31, .lease = 7, .length = 1, .fabric = "x"};

    (void)body;
    if (h->type != RDMAD_MSG_LEASE_ATTACH)
        return false;
    fake_send(f, h->type | RDMAD_MSG_REPLY, h->seq, 0, &rep, sizeof(rep), NULL, 0);
    fake_lease_ended(f, 7, 31, RDMAD_E_LEASE_REVOKED);
    return true;
}

Test(hooked, an_event_right_behind_the_reply_finds_its_lease) {
    rdmad_lease *lease;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;

    use_hook(hook_end_at_once);
    cr_assert_eq(rdmad_lease_attach(s, "name", 0, &lease), 0);
    cr_assert_eq(rdmad_next_event(s, 1000, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_LEASE_ENDED);
    cr_assert_eq(e.reason, RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(e.lease, lease);
    cr_assert_eq(e.lease_id, 7);
    rdmad_lease_get_info(lease, &info);
    cr_assert_eq(info.ended, RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(info.ttl_ms, 0);
    cr_assert_eq(rdmad_next_event(s, 0, &e), RDMAD_E_TIMEOUT, "once");
    rdmad_lease_free(lease);
}

static bool hook_event_before_stat(struct fake_daemon *f, const struct rdmad_msg_header *h,
                                   const void *body) {
    (void)body;
    if (h->type == RDMAD_MSG_LEASE_STAT)
        fake_lease_ended(f, 7, 0, RDMAD_E_LEASE_EXPIRED);
    return false;
}

Test(hooked, an_event_that_came_with_a_reply_keeps_the_descriptor_readable) {
    rdmad_pool *pool;
    rdmad_lease *lease;
    struct rdmad_lease_audit audit = RDMAD_LEASE_AUDIT_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;

    use_hook(hook_event_before_stat);
    int fd = rdmad_session_fd(s);
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &pool), 0);
    cr_assert_eq(rdmad_lease_grant(s, rdmad_pool_base(pool), 64, NULL, &lease), 0);
    cr_assert_not(readable(fd));
    cr_assert_eq(rdmad_lease_get_audit(lease, &audit), 0);
    cr_assert_eq(audit.ops, 3);
    cr_assert(readable(fd));
    cr_assert_eq(rdmad_next_event(s, 0, &e), 0);
    cr_assert_eq(e.reason, RDMAD_E_LEASE_EXPIRED);
    cr_assert_not(readable(fd));
    rdmad_lease_free(lease);
}

Test(client, a_freed_lease_takes_its_event_with_it) {
    rdmad_lease *a, *b;
    struct rdmad_event e = RDMAD_EVENT_INIT;

    cr_assert_eq(rdmad_lease_attach(s, "a", 0, &a), 0);
    fake_lease_ended(&fake, 7, 31, RDMAD_E_LEASE_EXPIRED);
    cr_assert_eq(rdmad_lease_attach(s, "b", 0, &b), 0); /* by now the event is in */
    rdmad_lease_free(a);
    cr_assert_eq(rdmad_next_event(s, 0, &e), RDMAD_E_TIMEOUT);
    rdmad_lease_free(b);
}

Test(client, revoking_tells_the_end_once_whether_or_not_the_daemon_says_it_too) {
    rdmad_pool *pool;
    rdmad_lease *lease;
    struct rdmad_event e = RDMAD_EVENT_INIT;

    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &pool), 0);
    cr_assert_eq(rdmad_lease_grant(s, rdmad_pool_base(pool), 64, NULL, &lease), 0);
    cr_assert_eq(rdmad_lease_revoke(lease), 0);
    fake_lease_ended(&fake, 7, 0, RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(rdmad_next_event(s, 1000, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_LEASE_ENDED);
    cr_assert_eq(rdmad_next_event(s, 50, &e), RDMAD_E_TIMEOUT);
    cr_assert_eq(rdmad_lease_revoke(lease), 0, "it has ended");
    rdmad_lease_free(lease);
}

Test(client, info_tells_of_a_leases_end_before_the_event_is_taken) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease *lease;
    struct rdmad_event e = RDMAD_EVENT_INIT;

    cr_assert_eq(rdmad_lease_attach(s, "a", 0, &lease), 0);
    rdmad_lease_get_info(lease, &info);
    cr_assert_eq(info.ended, 0);
    fake_lease_ended(&fake, 7, 31, RDMAD_E_LEASE_REVOKED);
    rdmad_lease_get_info(lease, &info);
    cr_assert_eq(info.ended, RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(info.ttl_ms, 0);
    cr_assert_eq(rdmad_next_event(s, 0, &e), 0, "the event is lost");
    cr_assert_eq(e.type, RDMAD_EVENT_LEASE_ENDED);
}

Test(client, a_uri_that_is_missing_is_no_crash) {
    rdmad_lease *lease;

    cr_assert_eq(rdmad_lease_attach(s, NULL, 0, &lease), 0, "this daemon takes any URI");
    rdmad_lease_free(lease);
}

Test(client, a_descriptor_of_no_memory_is_named_before_anything_is_asked) {
    rdmad_pool *pool;
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(rdmad_pool_import(s, ends[0], &pool), RDMAD_E_FDS);
    says("is no memfd");
    cr_assert_null(pool);
    close(ends[0]);
    close(ends[1]);
}

Test(client, a_session_that_the_daemon_ends_says_why) {
    struct rdmad_msg_error why = {.text = "the ring was broken"};
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_pool *pool;

    fake_send(&fake, RDMAD_EV_SESSION_ENDED, 0, 0, &why, sizeof(why), NULL, 0);
    fake_hang_up(&fake);
    cr_assert_eq(rdmad_next_event(s, -1, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST);
    cr_assert_not_null(strstr(e.text, "the ring was broken"));
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &pool), RDMAD_E_DAEMON_LOST);
    says("the ring was broken");
}

struct asker {
    pthread_t thread;
    int rc;
};

static void *wait_for_event(void *arg) {
    struct asker *a = arg;
    struct rdmad_event e = RDMAD_EVENT_INIT;

    a->rc = rdmad_next_event(s, -1, &e);
    return NULL;
}

Test(client, a_thread_that_waits_for_events_does_not_swallow_another_ones_reply) {
    struct asker a;
    rdmad_lease *lease;
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;

    pthread_create(&a.thread, NULL, wait_for_event, &a);
    for (unsigned i = 0; i < 200; i++) {
        cr_assert_eq(rdmad_lease_attach(s, "name", 0, &lease), 0);
        rdmad_lease_get_info(lease, &info);
        cr_assert_gt(info.ttl_ms, 0);
        rdmad_lease_free(lease);
    }
    fake_hang_up(&fake);
    pthread_join(a.thread, NULL);
    cr_assert_eq(a.rc, 0);
}
