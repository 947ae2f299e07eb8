/* SPDX-License-Identifier: MIT */
/*
 * openmetrics.c - see openmetrics.h.
 */
#include "daemon/ctl/openmetrics.h"
#include <inttypes.h>
#include <string.h>

#define FIRST_BOUND 9u /* 512 ns */
#define LAST_BOUND 34u /* 17 s */

/* What a sample's name has behind the family's. */
static const char *suffix_of(enum metrics_type type) {
    return type == METRICS_COUNTER ? "_total" : type == METRICS_INFO ? "_info" : "";
}

static const char *type_word(const struct metrics_writer *w, enum metrics_type type) {
    static const char *const words[][2] = {
        [METRICS_GAUGE] = {"gauge", "gauge"},
        [METRICS_COUNTER] = {"counter", "counter"},
        [METRICS_HISTOGRAM] = {"histogram", "histogram"},
        [METRICS_INFO] = {"gauge", "info"},
        [METRICS_ANY] = {"untyped", "unknown"},
    };
    return words[type][w->openmetrics];
}

void metrics_label(struct metrics_labels *l, const char *name, const char *value) {
    size_t used = strlen(l->text), room = sizeof(l->text);
    int n = snprintf(l->text + used, room - used, "%s%s=\"", used ? "," : "", name);
    if (n < 0 || used + (size_t)n + 2 > room) {
        l->text[used] = '\0';
        return;
    }
    used += (size_t)n;
    for (; *value && used + 4 < room; value++) {
        if (*value == '\n' || *value == '\\' || *value == '"')
            l->text[used++] = '\\';
        l->text[used++] = *value;
        if (*value == '\n')
            l->text[used - 1] = 'n';
    }
    l->text[used++] = '"';
    l->text[used] = '\0';
}

void metrics_family(struct metrics_writer *w, enum metrics_type type, const char *name,
                    const char *unit, const char *help) {
    const char *suffix = w->openmetrics ? "" : suffix_of(type);
    w->name = name;
    w->type = type;
    fprintf(w->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
            type_word(w, type));
    if (unit && w->openmetrics)
        fprintf(w->out, "# UNIT %s %s\n", name, unit);
}

static void print_name(struct metrics_writer *w, const char *suffix,
                       const struct metrics_labels *labels) {
    if (labels && labels->text[0])
        fprintf(w->out, "%s%s{%s} ", w->name, suffix, labels->text);
    else
        fprintf(w->out, "%s%s ", w->name, suffix);
}

void metrics_number(struct metrics_writer *w, const struct metrics_labels *labels, uint64_t n) {
    print_name(w, suffix_of(w->type), labels);
    fprintf(w->out, "%" PRIu64 "\n", n);
}

void metrics_real(struct metrics_writer *w, const struct metrics_labels *labels, double n) {
    print_name(w, suffix_of(w->type), labels);
    fprintf(w->out, "%.12g\n", n);
}

static void print_bucket(struct metrics_writer *w, const struct metrics_labels *labels,
                         const char *bound, uint64_t count) {
    struct metrics_labels all = *labels;
    metrics_label(&all, "le", bound);
    print_name(w, "_bucket", &all);
    fprintf(w->out, "%" PRIu64 "\n", count);
}

void metrics_histogram(struct metrics_writer *w, const struct metrics_labels *labels,
                       const struct histogram *h) {
    uint64_t count = histogram_count(h);
    for (unsigned power = FIRST_BOUND; power <= LAST_BOUND; power++) {
        char bound[32];
        uint64_t ns = UINT64_C(1) << power;
        snprintf(bound, sizeof(bound), "%.12g", (double)ns / 1e9);
        print_bucket(w, labels, bound, histogram_count_to(h, ns));
    }
    print_bucket(w, labels, "+Inf", count);
    print_name(w, "_sum", labels);
    fprintf(w->out, "%.12g\n", (double)h->sum_ns / 1e9);
    print_name(w, "_count", labels);
    fprintf(w->out, "%" PRIu64 "\n", count);
}

void metrics_end(struct metrics_writer *w) {
    if (w->openmetrics)
        fputs("# EOF\n", w->out);
}
