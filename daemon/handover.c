/* SPDX-License-Identifier: MIT */
/*
 * handover.c - words in the environment, descriptors, exec.
 */
#include "daemon/handover.h"
#include "common/uri.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VARIABLE "RDMAD_LIFE_BEFORE"
#define TOLD "RDMAD_TRIAL_SOCKETS" /* a line each: its name, a space, its path */
#define WORDS_MAX 96u              /* four numbers and a version, at their longest */
#define REAP_EVERY_US 100000

/* ---- the words ------------------------------------------------------------------------------ */

static int words_print(const struct handover *h, char *out, size_t size) {
    return snprintf(out, size, "%u %" PRIu64 " %u %d %s", h->times, h->began_ns, (unsigned)h->port,
                    (int)h->porter, h->from);
}

/* Written again they are the same: sscanf also takes signs, zeros in front and, in its own way,
 * numbers that are too large. */
static bool words_are_of(const char *text, const struct handover *h) {
    char again[WORDS_MAX];
    size_t n = (size_t)words_print(h, again, sizeof(again));
    return !strncmp(text, again, n) && (!text[n] || text[n] == ' ');
}

void handover_take(struct handover *out) {
    const char *text = getenv(VARIABLE);
    struct handover h = {.times = 0};
    int porter = 0;
    *out = h;
    if (!text)
        return;
    if (sscanf(text, "%u %" SCNu64 " %" SCNu16 " %d %31s", &h.times, &h.began_ns, &h.port, &porter,
               h.from) == 5) {
        h.porter = porter;
        if (h.times && porter >= 0 && h.began_ns <= clock_now_ns() && words_are_of(text, &h))
            *out = h;
    }
    unsetenv(VARIABLE);
}

void handover_keep_port(const struct handover *h, struct config *c) {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    if (h->times && !rdmad_hostport_parse(c->listen, host, &port) && !port)
        rdmad_hostport_print(host, h->port, c->listen, sizeof(c->listen));
}

/* ---- the porter of the life before ---------------------------------------------------------- */

struct reaper {
    struct event *tick;
    pid_t pid;
};

static void reaper_look(evutil_socket_t fd, short what, void *arg) {
    struct reaper *r = arg;
    (void)fd, (void)what;
    if (waitpid(r->pid, NULL, WNOHANG) != 0) /* it has ended, or is not ours */
        event_del(r->tick);
}

struct reaper *reaper_new(struct event_base *base, const struct handover *h) {
    const struct timeval every = {.tv_usec = REAP_EVERY_US};
    struct reaper *r = h->porter ? calloc(1, sizeof(*r)) : NULL;
    if (!r)
        return NULL;
    r->pid = h->porter;
    r->tick = event_new(base, -1, EV_PERSIST, reaper_look, r);
    if (r->tick && !event_add(r->tick, &every))
        return r;
    reaper_free(r);
    return NULL;
}

void reaper_free(struct reaper *r) {
    if (!r)
        return;
    if (r->tick)
        event_free(r->tick);
    free(r);
}

/* ---- the environment ------------------------------------------------------------------------ */

static const char *const ours[] = {VARIABLE "=", "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES="};
#define OURS (sizeof(ours) / sizeof(ours[0]))

static bool word_is_ours(const char *word) {
    for (size_t i = 0; i < OURS; i++)
        if (!strncmp(word, ours[i], strlen(ours[i])))
            return true;
    return false;
}

static size_t environ_size(void) {
    size_t n = 0;
    while (environ[n])
        n++;
    return n;
}

/* All of the environment but our words; how many. */
static size_t environ_others(char **out) {
    size_t n = 0;
    for (char **word = environ; *word; word++)
        if (!word_is_ours(*word))
            out[n++] = *word;
    return n;
}

/* ---- a trial ----------------------------------------------------------------------------------
 */

char **handover_for_trial(const struct handover *h, const struct kept *kept) {
    size_t n = environ_size(), lines = sizeof(TOLD "=") + kept->count * sizeof(kept->socket[0]);
    char **env =
        calloc(1, (n + 3) * sizeof(*env) + sizeof(VARIABLE "=") + WORDS_MAX + lines); /* and text */
    if (!env)
        return NULL;
    env[0] = (char *)(env + n + 3);
    env[1] = env[0] + sizeof(VARIABLE "=") + WORDS_MAX;
    int used = snprintf(env[0], sizeof(VARIABLE "="), VARIABLE "=");
    words_print(h, env[0] + used, WORDS_MAX);
    used = snprintf(env[1], lines, TOLD "=");
    for (unsigned i = 0; i < kept->count; i++)
        used += snprintf(env[1] + used, lines - (size_t)used, "%s %s\n", kept->socket[i].name,
                         kept->socket[i].path);
    environ_others(env + 2);
    return env;
}

void handover_take_told(struct kept *out) {
    const char *line = getenv(TOLD);
    *out = (struct kept){.count = 0};
    while (line && *line && out->count < KEPT_MAX) {
        struct kept_socket *s = &out->socket[out->count];
        size_t n = strcspn(line, "\n"), name = strcspn(line, " \n");
        if (name < n && name < sizeof(s->name) && n - name <= sizeof(s->path)) {
            s->fd = -1;
            memcpy(s->name, line, name);
            memcpy(s->path, line + name + 1, n - name - 1);
            out->count++;
        }
        line += n + (line[n] != '\0');
    }
    unsetenv(TOLD);
}

/* ---- exec ----------------------------------------------------------------------------------- */

/* Not setenv: where the stop was not clean, threads are left that may read the environment. */
static bool handover_exec_with(const char *program, char **argv, char *const words[OURS]) {
    char **env = calloc(environ_size() + OURS + 1, sizeof(*env));
    if (!env)
        return false;
    memcpy(env + environ_others(env), words, OURS * sizeof(*words));
    execve(program, argv, env);
    int saved = errno;
    free(env);
    errno = saved;
    return false;
}

int handover_exec(const char *program, char **argv, struct kept *kept, const struct handover *h) {
    char names[KEPT_MAX * 16], word[4][sizeof(names) + 32];
    if (kept_pass(kept, names, sizeof(names))) {
        int n = snprintf(word[0], sizeof(word[0]), "%s", ours[0]);
        words_print(h, word[0] + n, sizeof(word[0]) - (size_t)n);
        snprintf(word[1], sizeof(word[1]), "%s%d", ours[1], (int)getpid());
        snprintf(word[2], sizeof(word[2]), "%s%u", ours[2], kept->count);
        snprintf(word[3], sizeof(word[3]), "%s%s", ours[3], names);
        handover_exec_with(program, argv, (char *const[]){word[0], word[1], word[2], word[3]});
    }
    int saved = errno;
    log_init(LOG_INFO, true); /* the journal's own socket may have been overwritten */
    LOG(ERR, ("the upgrade has ended this rdmad and cannot begin the next: %s: %s; start it anew",
              program, strerror(saved)));
    return 1;
}
