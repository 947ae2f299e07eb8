/* SPDX-License-Identifier: MIT */
/*
 * far_pair.c - made and ended, and whether it works.
 */
#include "tests/integration/far_pair.h"
#include "tests/support/pair.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static rdmad_session *session_of(struct tdaemon *d, int64_t resume) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    o.runtime_dir = tdaemon_dir(d);
    o.resume = resume;
    CHECK(rdmad_open(&o, &s) == 0, "%s", rdmad_last_error(NULL));
    return s;
}

static void *buffer_of(rdmad_session *s, rdmad_pool **pool) {
    CHECK(rdmad_pool_create(s, 2 * FAR_BYTES, 0, pool) == 0, "%s", rdmad_last_error(s));
    void *at = rdmad_alloc(*pool, FAR_BYTES);
    CHECK(at, "%s", rdmad_last_error(s));
    return at;
}

void far_pair_up(struct far_pair *p, const char *settings, uint64_t ttl_ms,
                 int64_t lessee_resumes) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    need_hole_guard();
    *p = (struct far_pair){.config = "/tmp/rdmad-far-XXXXXX", .args = {"--config", p->config}};
    int fd = mkstemp(p->config);
    CHECK(fd >= 0 && dprintf(fd, "%s\n", settings) > 0, "cannot make a file for the settings");
    close(fd);
    p->far = tdaemon_start("127.0.0.2", p->args);
    p->near = tdaemon_start("127.0.0.1", p->args);
    p->owner = session_of(p->far, 1);
    p->lessee = session_of(p->near, lessee_resumes);
    p->memory = buffer_of(p->owner, &p->pool);
    p->buffer = buffer_of(p->lessee, &p->mine);
    t.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    if (ttl_ms)
        t.ttl_ms = ttl_ms;
    CHECK(rdmad_lease_grant(p->owner, p->memory, FAR_BYTES, &t, &p->granted) == 0, "%s",
          rdmad_last_error(p->owner));
    CHECK(rdmad_lease_attach(p->lessee, rdmad_lease_uri(p->granted), 0, &p->attached) == 0, "%s",
          rdmad_last_error(p->lessee));
}

void far_pair_down(struct far_pair *p) {
    rdmad_close(p->lessee);
    if (p->owner)
        rdmad_close(p->owner);
    tdaemon_stop(p->near);
    tdaemon_stop(p->far);
    unlink(p->config);
}

void far_pair_works(struct far_pair *p, unsigned seed) {
    fill_bytes(p->memory, FAR_BYTES, seed);
    memset(p->buffer, 0, FAR_BYTES);
    CHECK(rdmad_read(p->attached, 0, p->buffer, FAR_BYTES) == 0, "a read: %s",
          rdmad_last_error(p->lessee));
    CHECK(bytes_are(p->buffer, FAR_BYTES, seed, NULL), "the read is of the owner's bytes");
    fill_bytes(p->buffer, FAR_BYTES, seed + 1);
    CHECK(rdmad_write(p->attached, 0, p->buffer, FAR_BYTES) == 0, "a write: %s",
          rdmad_last_error(p->lessee));
    CHECK(bytes_are(p->memory, FAR_BYTES, seed + 1, NULL), "the write is there");
}

void far_pair_expect_no_end(struct far_pair *p) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    int rc;
    while ((rc = rdmad_next_event(p->lessee, 0, &e)) == 0)
        CHECK(e.type == RDMAD_EVENT_LEASE_RENEWED || e.type == RDMAD_EVENT_SESSION_RESUMED,
              "an event of type %u: %s", e.type, e.text);
    CHECK(rc == RDMAD_E_TIMEOUT, "%s", rdmad_errname(rc));
}
