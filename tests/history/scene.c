/* SPDX-License-Identifier: MIT */
/*
 * scene.c - what every program of a history begins, ends and waits with.
 */
#include "tests/history/scene.h"

#include "tests/support/harness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void program_begin(struct program *p, size_t bytes) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    record_open(&p->book, p->board->dir, p->client);
    p->random = (p->board->seed ^ (p->client * 0x9e3779b97f4a7c15u)) | 1;
    for (unsigned i = 0; i < 8; i++)
        (void)program_draw(p, 2);
    o.runtime_dir = p->board->runtime[p->daemon];
    /* It may be started while its daemon is not. */
    for (uint64_t since = now_ms(); rdmad_open(&o, &p->session) != 0; sleep_ms(5))
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "client %u: %s", p->client,
              rdmad_last_error(NULL));
    CHECK(rdmad_pool_create(p->session, bytes, 0, &p->pool) == 0, "client %u: %s", p->client,
          rdmad_last_error(p->session));
    p->buffer = rdmad_pool_base(p->pool);
    __atomic_fetch_add(&p->board->begun, 1, __ATOMIC_SEQ_CST);
}

void program_end(struct program *p) {
    rdmad_close(p->session);
    record_close(&p->book);
}

bool program_goes_on(const struct program *p) {
    return !__atomic_load_n(&p->board->stop, __ATOMIC_SEQ_CST);
}

uint64_t program_draw(struct program *p, uint64_t below) {
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (p->random >> 11) % below;
}

void program_pause(struct program *p, unsigned below_us) {
    usleep((useconds_t)program_draw(p, below_us));
}

/* The event says for how long it was away. */
static void note_resumed(struct program *p, const struct rdmad_event *e) {
    const char *after = strstr(e->text, "after ");
    p->board->away_ms[p->client] = after ? (uint32_t)strtoul(after + 6, NULL, 10) : UINT32_MAX;
    __atomic_fetch_add(&p->board->resumed[p->client], 1, __ATOMIC_SEQ_CST);
    record_end(record_begin(&p->book, RECORD_RESUMED, p->daemon, 0, 0), RECORD_DONE, 0, 0, 0);
}

bool program_events(struct program *p, int ms, const rdmad_lease *lease) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    const uint64_t until = now_ms() + (uint64_t)ms;
    for (;;) {
        uint64_t now = now_ms();
        int rc = rdmad_next_event(p->session, now < until ? (int)(until - now) : 0, &e);
        if (rc == RDMAD_E_TIMEOUT)
            return false;
        CHECK(rc == 0, "client %u: no events: %s", p->client, rdmad_errname(rc));
        CHECK(e.type != RDMAD_EVENT_SESSION_LOST, "client %u at daemon %u: the session is lost: %s",
              p->client, p->daemon, e.text);
        if (e.type == RDMAD_EVENT_SESSION_RESUMED)
            note_resumed(p, &e);
        if (e.type == RDMAD_EVENT_LEASE_ENDED)
            snprintf(p->ended, sizeof(p->ended), "%s", e.text);
        if (lease && e.type == RDMAD_EVENT_LEASE_ENDED && e.lease == lease)
            return true;
    }
}

const char *program_uri(const struct program *p, const char *uri, char through[RDMAD_URI_MAX + 1]) {
    const char *host = p->board->host, *at = strstr(uri, host);
    if (p->daemon == 0)
        return uri;
    CHECK(at, "%s is not at %s", uri, host);
    snprintf(through, RDMAD_URI_MAX + 1, "%.*s%s%s", (int)(at - uri), uri, p->board->path,
             at + strlen(host));
    return through;
}

rdmad_lease *program_attach(struct program *p, const char *uri) {
    rdmad_lease *lease;
    char through[RDMAD_URI_MAX + 1];
    uint64_t since = now_ms();
    uri = program_uri(p, uri, through);
    while (program_goes_on(p)) {
        if (rdmad_lease_attach(p->session, uri, 0, &lease) == 0)
            return lease;
        CHECK(now_ms() - since < 3 * TEST_PATIENCE_MS, "client %u cannot attach again: %s",
              p->client, rdmad_last_error(p->session));
        (void)program_events(p, 5, NULL);
    }
    return NULL;
}

/* A handle that lives on by itself is used on. */
rdmad_lease *program_mend(struct program *p, rdmad_lease *lease, const char *uri) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    char said[512];
    snprintf(said, sizeof(said), "%s", rdmad_last_error(p->session));
    (void)program_events(p, 1, NULL);
    rdmad_lease_get_info(lease, &info);
    if (!info.ended)
        return lease;
    if (program_goes_on(p)) { /* else its owner may have been the first to end */
        __atomic_fetch_add(&p->board->handles_ended, 1, __ATOMIC_SEQ_CST);
        printf("  client %u at daemon %u, after %" PRIu64
               " ms: a handle ended with %s: %s; its last op: "
               "%s\n",
               p->client, p->daemon, (record_now_ns() - p->board->begun_ns) / 1000000,
               rdmad_errname(info.ended), p->ended, said);
        fflush(stdout);
    }
    rdmad_lease_free(lease);
    return program_attach(p, uri);
}

uint32_t program_key(const struct program *p) {
    uint64_t ms = (record_now_ns() - p->board->begun_ns) / 1000000;
    return (uint32_t)(ms / KEYS_TIME_MS * KEYS_AT_A_TIME % KEYS);
}

/* ---- patterns -------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t object, uint64_t version, uint64_t at) {
    uint64_t x = (object << 40) ^ (version << 16) ^ at;
    x *= 0xff51afd7ed558ccdu;
    return x ^ (x >> 33);
}

/* Each word tells its place, object and version, so a mix shows wherever its border is. */
void pattern_fill(void *at, size_t length, uint64_t object, uint64_t version) {
    uint64_t *words = at;
    words[0] = object;
    words[1] = version;
    for (size_t i = 2; i < length / 8; i++)
        words[i] = mixed(object, version, i);
}

uint64_t pattern_read(const void *at, size_t length, uint64_t object, uint64_t *whole) {
    const uint64_t *words = at;
    size_t zeroes = 0;
    for (size_t i = 0; i < length / 8; i++)
        zeroes += words[i] == 0;
    *whole = RECORD_WHOLE;
    if (zeroes == length / 8) /* nothing was written yet */
        return 0;
    for (size_t i = 2; i < length / 8; i++)
        if (words[i] != mixed(words[0], words[1], i)) {
            *whole = RECORD_TORN;
            return 0;
        }
    if (words[0] != object)
        *whole = RECORD_FOREIGN;
    return words[1];
}
