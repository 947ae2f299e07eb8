/* SPDX-License-Identifier: MIT */
#include "tests/unit/verbs_pair.h"
#include "daemon/base/guard.h"
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t side_now(void *user) {
    return clock_now_ns() + ((struct vside *)user)->skew_ns;
}

static void side_complete(void *user, struct fabric_op *op) {
    struct vop *t = op->user;
    cr_assert(!t->done, "an op was completed twice");
    t->done = true;
    ((struct vside *)user)->completed++;
    if (t->then)
        t->then(t);
}

static void side_up(void *user, void *cookie) {
    (void)cookie;
    ((struct vside *)user)->up++;
}

static void side_lost(void *user, void *cookie, const struct error *why) {
    (void)cookie;
    struct vside *s = user;
    s->lost++;
    s->why = *why;
}

static void side_opened(void *user, void *cookie, const struct fabric_blob *key,
                        const struct error *err) {
    (void)user;
    struct vwindow *w = cookie;
    cr_assert(!w->opened, "a window was opened twice");
    w->opened = true;
    if (err)
        w->err = *err;
    else
        w->key = *key;
}

static void side_closed(void *user, void *cookie) {
    (void)user;
    struct vwindow *w = cookie;
    cr_assert(!w->closed, "a window was closed twice");
    w->closed = true;
}

static uint64_t side_received(void *user, uint64_t peer, uint64_t number, const void *bytes,
                              size_t size) {
    struct vside *s = user;
    cr_assert_eq(peer, LESSEE);
    s->messages++;
    if (s->received)
        s->received(s, number, bytes, size);
    return s->word;
}

static void side_fault(void *user, const void *address) {
    struct vside *s = user;
    s->faults++;
    s->fault_address = address;
}

static void side_defaults(struct vside *s, const char *device) {
    s->env = (struct fabric_env){.user = s,
                                 .now_ns = side_now,
                                 .complete = side_complete,
                                 .link_up = side_up,
                                 .link_lost = side_lost,
                                 .window_opened = side_opened,
                                 .window_closed = side_closed,
                                 .received = side_received,
                                 .memory_fault = side_fault,
                                 .settings = &s->settings};
    s->settings = (struct fabric_settings){.listen_host = "127.0.0.1",
                                           .max_inflight = 256,
                                           .send_buffer_bytes = 8u << 20,
                                           .token_ttl_ns = 10 * NSEC_PER_SEC,
                                           .connect_timeout_ns = 5 * NSEC_PER_SEC,
                                           .dead_peer_ns = 60 * NSEC_PER_SEC,
                                           .max_strangers = 8,
                                           .verbs = {.windows = WINDOWS_REGISTRATIONS,
                                                     .lanes = 1,
                                                     .queue_depth = VPAIR_DEPTH,
                                                     .inline_bytes = 64,
                                                     .signal_every = 16,
                                                     .max_message = 1u << 20,
                                                     .hop_limit = 64,
                                                     .timeout = 14,
                                                     .retry_count = 6,
                                                     .rnr_retry = 6,
                                                     .min_rnr_timer = 12,
                                                     .rd_atomic = 16,
                                                     .dest_rd_atomic = 16,
                                                     .quiesce_ns = NSEC_PER_SEC,
                                                     .links_per_peer = 64}};
    snprintf(s->settings.verbs.device, sizeof s->settings.verbs.device, "%s", device);
}

static void side_open(struct vside *s, size_t bytes) {
    struct error err = {0};
    cr_assert_eq(fabric_verbs.host_open(&s->settings, &s->host, &err), 0, "%s", err.text);
    s->env.host = s->host;
    void *m =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    cr_assert(m != MAP_FAILED);
    s->base = m;
    cr_assert_eq(fabric_verbs.memory_add(s->host, m, bytes, &s->memory, &err), 0, "%s", err.text);
    cr_assert_eq(fabric_verbs.open(&s->env, &s->fabric, &err), 0, "%s", err.text);
}

static void side_close(struct vside *s, size_t bytes) {
    fabric_verbs.close(s->fabric);
    fabric_verbs.memory_remove(s->memory);
    fabric_verbs.host_close(s->host);
    munmap(s->base, bytes);
}

void vpair_defaults(struct vpair *p, size_t bytes) {
    *p = (struct vpair){.bytes = bytes};
    side_defaults(&p->owner, "rxe0");
    side_defaults(&p->lessee, "rxe1");
}

unsigned vpair_turn(struct vpair *p) {
    return fabric_verbs.poll(p->lessee.fabric) + fabric_verbs.poll(p->owner.fabric);
}

static int dial_once(struct vpair *p, struct fabric_link **out, struct error *err) {
    struct fabric_blob hello, offer;
    int rc = fabric_verbs.link_new(p->lessee.fabric, p, false, out, &hello, err);
    if (rc)
        return rc;
    rc = fabric_verbs.offer(p->owner.fabric, LESSEE, false, &hello, &offer, err);
    if (rc == 0)
        rc = fabric_verbs.link_open(*out, "10.77.0.1", &offer, err);
    if (rc)
        fabric_verbs.link_close(*out);
    return rc;
}

/* Like a daemon it comes again for a neighbour that is not known yet. */
int vpair_try_dial(struct vpair *p, struct fabric_link **out, struct error *err) {
    uint64_t until_ns = clock_now_ns() + NSEC_PER_SEC;
    for (;;) {
        int rc = dial_once(p, out, err);
        if (rc != RDMAD_E_UNREACHABLE || clock_now_ns() >= until_ns)
            return rc;
        usleep(2000);
        vpair_turn(p);
    }
}

struct fabric_link *vpair_dial(struct vpair *p) {
    struct error err = {0};
    struct fabric_link *link;
    unsigned up = p->lessee.up, lost = p->lessee.lost;
    cr_assert_eq(vpair_try_dial(p, &link, &err), 0, "%s", err.text);
    cr_assert_eq(p->lessee.up, up, "link_up came from inside link_open");
    VPAIR_UNTIL(p, p->lessee.up > up || p->lessee.lost > lost);
    cr_assert_eq(p->lessee.lost, lost, "%s", p->lessee.why.text);
    return link;
}

void vpair_window(struct vpair *p, struct vwindow *w, uint64_t via, uint32_t rights,
                  uint64_t offset, uint64_t length) {
    struct error err = {0};
    *w = (struct vwindow){0};
    w->spec = (struct fabric_window_spec){.peer = LESSEE,
                                          .via = via,
                                          .cookie = w,
                                          .base = p->owner.base + offset,
                                          .memory = p->owner.memory,
                                          .length = length,
                                          .rights = rights,
                                          .deadline_ns = CLOCK_NEVER,
                                          .lease_id = 1,
                                          .audit = &w->audit};
    int rc = fabric_verbs.window_open(p->owner.fabric, &w->spec, &w->window, &w->key, &err);
    if (rc == FABRIC_PENDING)
        VPAIR_UNTIL(p, w->opened);
    cr_assert(rc >= 0 && !w->err.code, "%s%s", err.text, w->err.text);
}

void vpair_unwindow(struct vpair *p, struct vwindow *w) {
    if (!fabric_verbs.window_close(w->window, RDMAD_E_LEASE_RELEASED))
        VPAIR_UNTIL(p, w->closed);
    w->window = NULL;
}

void vpair_start(struct vpair *p) {
    cr_assert_eq(guard_install(), 0);
    side_open(&p->owner, p->bytes);
    side_open(&p->lessee, p->bytes);
    p->link = vpair_dial(p);
    vpair_window(p, &p->window, p->link->number, RDMAD_RIGHTS_ALL, 0, p->bytes);
}

void vpair_open(struct vpair *p, size_t bytes) {
    vpair_defaults(p, bytes);
    vpair_start(p);
}

void vpair_close(struct vpair *p) {
    if (p->link)
        fabric_verbs.link_close(p->link);
    if (p->window.window)
        vpair_unwindow(p, &p->window);
    fabric_verbs.expel(p->owner.fabric, LESSEE);
    side_close(&p->lessee, p->bytes);
    side_close(&p->owner, p->bytes);
}

void vop_prepare(struct vpair *p, struct vop *op, int opcode, size_t local, uint64_t offset,
                 uint64_t length) {
    *op = (struct vop){.op = {.opcode = (uint8_t)opcode,
                              .local = p->lessee.base + local,
                              .memory = p->lessee.memory,
                              .length = length,
                              .key = &p->window.key,
                              .offset = offset,
                              .user = op}};
}

void vop_post(struct vpair *p, struct vop *op) {
    int rc;
    uint64_t until = clock_now_ns() + 60 * NSEC_PER_SEC;
    while ((rc = fabric_verbs.post(p->link, &op->op)) == RDMAD_E_AGAIN) {
        vpair_turn(p);
        cr_assert(clock_now_ns() < until, "the link stays full");
    }
    cr_assert_eq(rc, 0);
}

int vop_run(struct vpair *p, struct vop *op) {
    vop_post(p, op);
    VPAIR_UNTIL(p, op->done);
    return op->op.status;
}

void fill(void *to, size_t n, uint64_t seed) {
    uint8_t *bytes = to;
    uint64_t x = seed * 2 + 1;
    for (size_t i = 0; i < n; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(x >> 56);
    }
}

void must_run(const char *format, ...) {
    char command[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof command, format, ap);
    va_end(ap);
    cr_assert_eq(system(command), 0, "failed: %s", command);
}

unsigned fds_open(void) {
    DIR *d = opendir("/proc/self/fd");
    cr_assert_not_null(d);
    unsigned n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}
