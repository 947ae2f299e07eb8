/* SPDX-License-Identifier: MIT */
/*
 * hw_counters.c - three directories deep, each with a bound.
 *
 * A read under way belongs to nobody while it runs: it is a job with a table of its own. Done, it
 * gives that to the cache, unless the cache is gone.
 */
#include "daemon/ctl/hw_counters.h"
#include "daemon/base/offload.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT "/sys/class/infiniband"
#define OLD_NS (5 * NSEC_PER_SEC)
#define DEVICES_MAX 16u
#define PORTS_MAX 8u
#define PATH_BYTES 512u

struct hw_read {
    struct offload_job job;
    struct hw_cache *cache; /* NULL: it is gone */
    struct hw_counters counters;
};

struct hw_cache {
    struct state *state;
    struct hw_read *reading; /* NULL: none is under way */
    uint64_t asked_ns;
    struct hw_counters counters;
};

/* ---- reading ------------------------------------------------------------------------------- */

/* Calls each with the names in a directory that fit into room bytes, most of them. */
static void each_name(const char *path, unsigned most, size_t room,
                      void (*each)(void *arg, const char *path, const char *name), void *arg) {
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && most && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= room)
            continue;
        most--;
        each(arg, path, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

struct reading {
    struct hw_counters *out;
    const char *device, *port;
};

static bool read_number(const char *path, uint64_t *out) {
    char text[32], *end;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    errno = 0;
    *out = strtoull(text, &end, 10);
    return end != text && !errno && (*end == '\0' || *end == '\n');
}

static void read_counter(void *arg, const char *path, const char *name) {
    const struct reading *r = arg;
    struct hw_counters *out = r->out;
    char file[PATH_BYTES];
    uint64_t value;
    if (!strcmp(name, "lifespan") || out->count == HW_COUNTERS) /* a setting: how old they may be */
        return;
    if (snprintf(file, sizeof(file), "%s/%s", path, name) >= (int)sizeof(file) ||
        !read_number(file, &value))
        return;
    struct hw_counter *c = &out->row[out->count++];
    snprintf(c->device, sizeof(c->device), "%s", r->device);
    snprintf(c->port, sizeof(c->port), "%s", r->port);
    snprintf(c->name, sizeof(c->name), "%s", name);
    c->value = value;
}

static void read_port(void *arg, const char *path, const char *name) {
    struct reading *r = arg;
    char dir[PATH_BYTES];
    r->port = name;
    if (snprintf(dir, sizeof(dir), "%s/%s/hw_counters", path, name) < (int)sizeof(dir))
        each_name(dir, HW_COUNTERS, sizeof(r->out->row[0].name), read_counter, r);
}

static void read_device(void *arg, const char *path, const char *name) {
    struct reading *r = arg;
    char dir[PATH_BYTES];
    r->device = name;
    if (snprintf(dir, sizeof(dir), "%s/%s/ports", path, name) < (int)sizeof(dir))
        each_name(dir, PORTS_MAX, sizeof(r->out->row[0].port), read_port, r);
}

void hw_counters_read(const char *root, struct hw_counters *out) {
    struct reading r = {.out = out};
    out->count = 0;
    each_name(root, DEVICES_MAX, sizeof(out->row[0].device), read_device, &r);
}

/* ---- the cache ----------------------------------------------------------------------------- */

static void hw_run(struct offload_job *job) {
    hw_counters_read(ROOT, &container_of(job, struct hw_read, job)->counters);
}

static void hw_done(struct offload_job *job) {
    struct hw_read *r = container_of(job, struct hw_read, job);
    if (r->cache) {
        r->cache->counters = r->counters;
        r->cache->reading = NULL;
    }
    free(r);
}

struct hw_cache *hw_cache_new(struct state *st) {
    struct hw_cache *c = calloc(1, sizeof(*c));
    if (c)
        c->state = st;
    return c;
}

const struct hw_counters *hw_cache_look(struct hw_cache *c, uint64_t now_ns) {
    bool old = !c->asked_ns || now_ns - c->asked_ns >= OLD_NS;
    struct hw_read *r = old && !c->reading ? calloc(1, sizeof(*r)) : NULL;
    if (r) {
        *r = (struct hw_read){.job = {.owner = UINT64_MAX - 1, /* nobody else's */
                                      .reply_to = c->state->mailbox,
                                      .run = hw_run,
                                      .done = hw_done},
                              .cache = c};
        c->reading = r;
        c->asked_ns = now_ns;
        offload_post(c->state->offload, &r->job);
    }
    return &c->counters;
}

void hw_cache_free(struct hw_cache *c) {
    if (c && c->reading)
        c->reading->cache = NULL;
    free(c);
}
