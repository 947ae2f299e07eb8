/* SPDX-License-Identifier: MIT */
#include "tests/unit/session_rig.h"

#include <dirent.h>

struct state st;
struct outcome out;
static struct config config;
struct mailbox box;
static unsigned fds_before;
unsigned rig_kept_fds;

static unsigned open_fds(void) {
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

unsigned mappings_of(const char *name) {
    char line[512];
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (fgets(line, sizeof(line), f))
        n += strstr(line, name) != NULL;
    fclose(f);
    return n;
}

void rig_set_up(void) {
    struct quota_limits limits;
    for (int r = 0; r < QUOTA_COUNT; r++)
        limits.total[r] = limits.uid[r] = limits.session[r] = 1 << 20;
    fake_reset();
    config_defaults(&config);
    cr_assert_eq(mailbox_init(&box), 0);
    st = (struct state){.config = &config, .mailbox = &box};
    cr_assert_eq(offload_start(&st.offload), 0);
    list_init(&st.sessions);
    usage_init(&st.usage);
    timers_init(&st.timers, NULL, NULL);
    quota_init(&st.quota, &limits);
    rig_kept_fds = 0;
    fds_before = open_fds();
}

uint64_t charged(enum quota_resource r) {
    return st.quota.total.used[r];
}

void rig_tear_down(void) {
    fake_answer_all();
    UNTIL(list_empty(&st.sessions));
    for (int r = 0; r < QUOTA_COUNT; r++)
        cr_assert_eq(charged((enum quota_resource)r), 0, "resource %d is still charged", r);
    cr_assert(list_empty(&st.quota.uids));
    cr_assert_eq(open_fds(), fds_before + rig_kept_fds, "a descriptor is left");
    cr_assert_eq(mappings_of("rdmad-"), 0, "memory is left");
    cr_assert_eq(fake_memories, 0, "memory is still known to the devices");
    offload_stop(st.offload);
    mailbox_fini(&box);
    timers_fini(&st.timers);
    quota_fini(&st.quota);
    usage_fini(&st.usage);
}

struct session *session(void) {
    struct session *s;
    cr_assert_eq(session_new(&st, 1000, 1000, 1, &s, NULL), 0);
    return s;
}

/* As a client does. */
void populate_and_seal(int fd, size_t bytes, bool writable) {
    void *theirs = rdmad_memfd_map(fd, bytes, writable);
    cr_assert_eq(rdmad_memfd_populate(theirs, bytes, writable), 0);
    cr_assert(!writable || rdmad_memfd_freeze(fd) == 0);
    munmap(theirs, bytes);
}

void on_pool(void *arg, struct pool *pool, int fd, const struct error *result) {
    cr_assert_eq(arg, &out);
    out.calls++;
    out.code = result->code;
    out.pool = pool;
    out.fd = fd < 0 ? -1 : dup(fd);
    strcpy(out.text, result->text);
}

static void on_ring(void *arg, struct ring_object *ro, const int fds[RING_FDS],
                    const struct error *result) {
    cr_assert_eq(arg, &out);
    out.calls++;
    out.code = result->code;
    out.ring = ro;
    strcpy(out.text, result->text);
    if (result->code)
        return;
    populate_and_seal(fds[RING_FD_CLIENT], ro->ring->client_bytes, true);
    populate_and_seal(fds[RING_FD_DAEMON], ro->ring->daemon_bytes, false);
    ring_object_sent(ro, fds, true);
}

void on_done(void *arg, const struct error *result) {
    cr_assert_eq(result->code, 0);
    ++*(unsigned *)arg;
}

void ask_pool(struct session *s, uint64_t bytes, uint32_t flags) {
    memset(&out, 0, sizeof(out));
    pool_create(s, bytes, flags, on_pool, &out);
}

void on_ready(void *arg, const struct error *result) {
    cr_assert_eq(arg, &out);
    out.calls++;
    out.code = result->code;
    strcpy(out.text, result->text);
}

/* A pool that its client has, honest or not; out.fd is open. */
struct pool *made(struct session *s, uint64_t bytes) {
    ask_pool(s, bytes, 0);
    UNTIL(out.calls);
    cr_assert_eq(out.code, 0, "%s", out.text);
    return out.pool;
}

void ask_ready(const struct pool *p) {
    out.calls = 0;
    cr_assert_eq(pool_make_ready(p->session, p->handle, on_ready, &out, NULL), 0);
}

/* The client has done its part, and the data plane is asked. */
struct pool *nearly_ready(struct session *s, uint64_t bytes) {
    struct pool *p = made(s, bytes);
    populate_and_seal(out.fd, p->bytes, true);
    close(out.fd);
    ask_ready(p);
    UNTIL(fake_pending(FAKE_POOL_ADD));
    return p;
}

struct pool *make_pool(struct session *s) {
    struct pool *p = nearly_ready(s, POOL_BYTES);
    fake_answer(fake_call(FAKE_POOL_ADD, -1), 0);
    cr_assert_eq(out.code, 0, "%s", out.text);
    return p;
}

void ask_ring(struct session *s) {
    memset(&out, 0, sizeof(out));
    ring_object_create(s, 4, 0, on_ring, &out);
}

struct ring_object *nearly_ready_ring(struct session *s) {
    ask_ring(s);
    UNTIL(out.calls);
    cr_assert_eq(out.code, 0, "%s", out.text);
    struct ring_object *ro = out.ring;
    out.calls = 0;
    cr_assert_eq(ring_object_make_ready(s, ro->handle, on_ready, &out, NULL), 0);
    UNTIL(fake_pending(FAKE_RING_ADD));
    return ro;
}

struct ring_object *make_ring(struct session *s) {
    struct ring_object *ro = nearly_ready_ring(s);
    fake_answer(fake_call(FAKE_RING_ADD, -1), 0);
    cr_assert_eq(out.code, 0, "%s", out.text);
    return ro;
}
