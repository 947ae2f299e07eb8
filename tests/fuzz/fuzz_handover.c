/* SPDX-License-Identifier: MIT */
/*
 * The words that a life of the daemon leaves for the next: whatever they are, either they are as
 * handover_exec writes them, and are taken as they stand, or it is as if there were none. The port
 * never makes an address of another host, nor one that the settings would refuse. And the sockets
 * of which a trial of the next life is told: what was taken is told again as it was.
 */
#include "common/uri.h"
#include "daemon/base/clock.h"
#include "daemon/handover.h"
#include "daemon/ipc/kept.h"
#include "tests/fuzz/must.h"
#include <inttypes.h>

#define VARIABLE "RDMAD_LIFE_BEFORE"
#define TOLD "RDMAD_TRIAL_SOCKETS"
#define WORDS_MAX 256u
#define TOLD_MAX (64u * 1024u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was taken, written again, is what stood there: not one sign more, fewer or other. */
static void same_words(const struct handover *h, const char *words) {
    char again[WORDS_MAX];
    int n = snprintf(again, sizeof(again), "%u %" PRIu64 " %u %d %s", h->times, h->began_ns,
                     (unsigned)h->port, (int)h->porter, h->from);
    must(n > 0 && (size_t)n < sizeof(again));
    must(strncmp(words, again, (size_t)n) == 0);
    must(words[n] == '\0' || words[n] == ' ');
}

static void nothing(const struct handover *h) {
    const struct handover none = {.times = 0};
    must(h->times == none.times && h->began_ns == none.began_ns && h->port == none.port);
    must(h->porter == none.porter && h->from[0] == '\0');
}

static void same_host(const struct handover *h, const char *listen) {
    static struct config c;
    char host[RDMAD_HOST_MAX + 1], was[RDMAD_HOST_MAX + 1];
    uint16_t port, asked;
    must(rdmad_hostport_parse(listen, was, &asked) == NULL);
    snprintf(c.listen, sizeof(c.listen), "%s", listen);
    handover_keep_port(h, &c);
    must(rdmad_hostport_parse(c.listen, host, &port) == NULL);
    must(strcmp(host, was) == 0);
    must(port == (asked || !h->times ? asked : h->port));
}

static bool same_sockets(const struct kept *a, const struct kept *b) {
    bool same = a->count == b->count;
    for (unsigned i = 0; same && i < a->count; i++)
        same = !strcmp(a->socket[i].name, b->socket[i].name) &&
               !strcmp(a->socket[i].path, b->socket[i].path) && b->socket[i].fd == -1;
    return same;
}

static void told(const uint8_t *data, size_t size) {
    static char variable[sizeof(TOLD "=") + TOLD_MAX] = TOLD "=";
    const struct handover h = {.times = 1, .from = "0.1.0"};
    static struct kept kept, again;
    char *text = variable + strlen(TOLD "=");
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    must(putenv(variable) == 0);
    handover_take_told(&kept);
    must(!getenv(TOLD));
    must(kept.count <= KEPT_MAX);
    for (unsigned i = 0; i < kept.count; i++) {
        const struct kept_socket *s = &kept.socket[i];
        must(strnlen(s->name, sizeof(s->name)) < sizeof(s->name) && !strpbrk(s->name, " \n"));
        must(strnlen(s->path, sizeof(s->path)) < sizeof(s->path) && !strchr(s->path, '\n'));
    }
    char **env = handover_for_trial(&h, &kept);
    must(env && strncmp(env[1], TOLD "=", strlen(TOLD "=")) == 0);
    must(putenv(env[1]) == 0);
    handover_take_told(&again);
    must(same_sockets(&kept, &again));
    free(env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char variable[sizeof(VARIABLE "=") + WORDS_MAX] = VARIABLE "=";
    char *words = variable + strlen(VARIABLE "=");
    struct handover h;
    if (size >= TOLD_MAX || memchr(data, 0, size))
        return -1;
    told(data, size);
    if (size >= WORDS_MAX)
        return 0;
    if (size > 0)
        memcpy(words, data, size);
    words[size] = '\0';
    must(putenv(variable) == 0); /* setenv would keep each value for good */
    memset(&h, 0xa5, sizeof(h));
    handover_take(&h);
    must(!getenv(VARIABLE)); /* no later life finds them */
    if (h.from[0]) {
        must(memchr(h.from, '\0', sizeof(h.from)) != NULL);
        must(h.times > 0 && h.porter >= 0 && h.began_ns <= clock_now_ns());
        same_words(&h, words);
    } else {
        nothing(&h);
    }
    same_host(&h, "host.example:0");
    same_host(&h, "host.example:7471");
    same_host(&h, "[::1]:0");
    handover_take(&h);
    nothing(&h);
    return 0;
}
