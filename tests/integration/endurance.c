/* SPDX-License-Identifier: MIT */
/*
 * endurance.c - samples of what a daemon holds, and what becomes of them over time.
 *
 * All that status counts as objects, descriptors and threads among them, and the memory that is
 * resident. Over verbs also what the kernel counts at its device.
 */
#include "tests/integration/endurance.h"
#include "tests/support/procs.h"
#include "tests/support/rdma.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { QUANTITIES = 24, WARM = 2, SETTLE_MS = 100, MEMORY_LEAST = 12 };
/* Between the medians of the second and the last quarter of a life. An object that is forgotten
 * each round makes more in a long run; what malloc keeps makes less. */
#define MEMORY_GROWTH_KIB 2048.0

struct sample {
    double at_s, value[QUANTITIES];
    json_int_t life;
};

struct endurance {
    char name[8];
    const char *device; /* NULL: not over verbs */
    const char *quantity[QUANTITIES];
    unsigned quantities, count, room;
    struct sample *sample;
    FILE *csv;
    uint64_t began_ms;
};

struct endurance *endurance_new(const char *name, const char *device) {
    struct endurance *e = calloc(1, sizeof(*e));
    const char *path = getenv("RDMAD_SOAK_CSV");
    CHECK(e, "no memory");
    snprintf(e->name, sizeof(e->name), "%s", name);
    e->device = device;
    e->began_ms = now_ms();
    if (path) {
        e->csv = fopen(path, "ae");
        CHECK(e->csv, "%s cannot be written", path);
    }
    return e;
}

/* ---- a sample -------------------------------------------------------------------------------- */

static void note(struct endurance *e, struct sample *s, const char *quantity, double value) {
    unsigned q = 0;
    while (q < e->quantities && strcmp(e->quantity[q], quantity) != 0)
        q++;
    CHECK(q < QUANTITIES, "no room for %s", quantity);
    if (q == e->quantities) {
        e->quantity[e->quantities++] = strdup(quantity);
        CHECK(e->quantity[q], "no memory");
    }
    s->value[q] = value;
    if (e->csv)
        fprintf(e->csv, "%.3f,%s,%lld,%s,%.0f\n", s->at_s, e->name, (long long)s->life, quantity,
                value);
}

/* Connections that were not used for a while are closed, and made again when they are. */
static bool comes_and_goes(const char *quantity) {
    static const char *const names[] = {"peers", "links", "lanes_in", "fds", "qp", "cq", "mr"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(quantity, names[i]))
            return true;
    return false;
}

static bool are_as_at_first(const struct endurance *e, const json_t *objects) {
    for (unsigned q = 0; e->count && q < e->quantities; q++) {
        const json_t *value = json_object_get(objects, e->quantity[q]);
        if (value && !comes_and_goes(e->quantity[q]) &&
            (double)json_integer_value(value) != e->sample[0].value[q])
            return false;
    }
    return true;
}

/* Twice the same: what goes on after the end of something is over. On a busy machine an end can be
 * long in coming, and nothing happens meanwhile; so what is not as it was is looked at longer. */
static json_t *objects_at_rest(const struct endurance *e, struct tdaemon *d) {
    uint64_t began = now_ms();
    json_t *before = tdaemon_objects(d);
    for (;;) {
        sleep_ms(SETTLE_MS);
        json_t *now = tdaemon_objects(d);
        uint64_t waited = now_ms() - began;
        bool same = json_equal(before, now);
        json_decref(before);
        before = now;
        if (same && (are_as_at_first(e, now) || waited >= TEST_PATIENCE_MS))
            return now;
        CHECK(waited < 3 * TEST_PATIENCE_MS, "what the daemon holds never comes to rest");
    }
}

static unsigned threads_of(pid_t pid) {
    char path[64], line[256];
    unsigned threads = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    CHECK(f, "%s cannot be read", path);
    while (fgets(line, sizeof(line), f))
        if (!strncmp(line, "Threads:", 8))
            threads = (unsigned)strtoul(line + 8, NULL, 10);
    fclose(f);
    return threads;
}

static json_int_t life_of(struct tdaemon *d) {
    json_t *status = tdaemon_status(d);
    json_int_t life = json_integer_value(json_object_get(status, "life"));
    json_decref(status);
    return life;
}

static void note_device(struct endurance *e, struct sample *s) {
    if (!e->device)
        return;
    struct rdma_resources r = rdma_resources(e->device);
    note(e, s, "qp", r.qp);
    note(e, s, "cq", r.cq);
    note(e, s, "mr", r.mr);
}

void endurance_sample(struct endurance *e, struct tdaemon *d) {
    json_t *objects = objects_at_rest(e, d), *value;
    const char *key;
    if (e->count == e->room) {
        e->room = e->room ? 2 * e->room : 64;
        e->sample = realloc(e->sample, e->room * sizeof(*e->sample));
        CHECK(e->sample, "no memory");
    }
    struct sample *s = &e->sample[e->count++];
    *s = (struct sample){.at_s = (double)(now_ms() - e->began_ms) / 1e3, .life = life_of(d)};
    json_object_foreach(objects, key, value) note(e, s, key, (double)json_integer_value(value));
    note(e, s, "threads", threads_of(tdaemon_pid(d)));
    note_device(e, s);
    note(e, s, "memory_kib", (double)tdaemon_rss_bytes(d) / 1024);
    json_decref(objects);
    if (e->csv)
        fflush(e->csv);
}

/* ---- judged ---------------------------------------------------------------------------------- */

/* Per hour, by least squares. */
static double slope(const struct sample *s, unsigned n, unsigned q) {
    double t = 0, v = 0, tt = 0, tv = 0;
    for (unsigned i = 0; i < n; i++) {
        t += s[i].at_s;
        v += s[i].value[q];
        tt += s[i].at_s * s[i].at_s;
        tv += s[i].at_s * s[i].value[q];
    }
    double below = n * tt - t * t;
    return below > 0 ? 3600 * (n * tv - t * v) / below : 0;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_of(const struct sample *s, unsigned n, unsigned q) {
    double *v = calloc(n, sizeof(*v)), middle;
    CHECK(v, "no memory");
    for (unsigned i = 0; i < n; i++)
        v[i] = s[i].value[q];
    qsort(v, n, sizeof(*v), compare_doubles);
    middle = v[n / 2];
    free(v);
    return middle;
}

static void judge_memory(const struct endurance *e, const struct sample *s, unsigned n,
                         unsigned q) {
    if (n < MEMORY_LEAST)
        return; /* what is allocated once counts for too much */
    double before = median_of(s + n / 4, n / 4, q), after = median_of(s + n - n / 4, n / 4, q);
    CHECK(after - before <= MEMORY_GROWTH_KIB,
          "daemon %s, life %lld: memory grew from %.0f to %.0f KiB in %u rounds", e->name,
          (long long)s->life, before, after, n);
}

/* What is forgotten adds up: then even the least of the last quarter is more than ever in the first
 * half. */
static void judge_tides(const struct endurance *e, const struct sample *s, unsigned n, unsigned q) {
    double most = s[0].value[q], least = s[n - 1].value[q];
    for (unsigned i = 0; i < n / 2; i++)
        most = s[i].value[q] > most ? s[i].value[q] : most;
    for (unsigned i = n - n / 4; i < n; i++)
        least = s[i].value[q] < least ? s[i].value[q] : least;
    CHECK(
        n < 4 || least <= most,
        "daemon %s, life %lld: %s at rest were at most %.0f, and are at least %.0f after %u rounds",
        e->name, (long long)s->life, e->quantity[q], most, least, n);
}

static void judge_count(const struct endurance *e, const struct sample *s, unsigned n, unsigned q) {
    for (unsigned i = 1; i < n; i++)
        CHECK(s[i].value[q] == s[0].value[q],
              "daemon %s, life %lld: %s at rest were %.0f, and are %.0f after %u rounds more",
              e->name, (long long)s->life, e->quantity[q], s[0].value[q], s[i].value[q], i);
}

static void judge_life(const struct endurance *e, const struct sample *s, unsigned n) {
    printf("  daemon %s, life %lld, %u rounds in %.0f s:\n", e->name, (long long)s->life, n,
           s[n - 1].at_s - s[0].at_s);
    for (unsigned q = 0; q < e->quantities; q++) {
        bool memory = !strcmp(e->quantity[q], "memory_kib");
        if (memory || s[0].value[q] > 0 || s[n - 1].value[q] > 0)
            printf("    %-18s first %8.0f  last %8.0f  slope %+.1f an hour\n", e->quantity[q],
                   s[0].value[q], s[n - 1].value[q], slope(s, n, q));
        if (memory)
            judge_memory(e, s, n, q);
        else if (comes_and_goes(e->quantity[q]))
            judge_tides(e, s, n, q);
        else
            judge_count(e, s, n, q);
    }
}

void endurance_judge(struct endurance *e) {
    unsigned i = 0;
    while (i < e->count) {
        unsigned n = 1;
        while (i + n < e->count && e->sample[i + n].life == e->sample[i].life)
            n++;
        if (n > WARM + 1)
            judge_life(e, &e->sample[i + WARM], n - WARM);
        i += n;
    }
    for (unsigned q = 0; q < e->quantities; q++)
        free((char *)(uintptr_t)e->quantity[q]);
    if (e->csv)
        fclose(e->csv);
    free(e->sample);
    free(e);
}
