/* SPDX-License-Identifier: MIT */
/*
 * The text of metrics, the little HTTP before it, the counters of devices, and that none of it
 * grows with who comes; users and peers are test_usage.c's.
 */
#include "daemon/base/audit_count.h"
#include "daemon/ctl/hw_counters.h"
#include "daemon/ctl/metrics_http.h"
#include "daemon/ctl/openmetrics.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- text ---------------------------------------------------------------------------------- */

static char *text;
static size_t size;
static struct metrics_writer w;

static void begin(bool openmetrics) {
    w = (struct metrics_writer){.out = open_memstream(&text, &size), .openmetrics = openmetrics};
}

static void is(const char *expected) {
    fclose(w.out);
    cr_expect_str_eq(text, expected);
    free(text);
}

static void one_counter(void) {
    struct metrics_labels l = {0};
    metrics_label(&l, "a", "quote\" back\\ line\n");
    metrics_label(&l, "b", "2");
    metrics_family(&w, METRICS_COUNTER, "x_bytes", "bytes", "What moved.");
    metrics_number(&w, &l, 7);
    metrics_family(&w, METRICS_INFO, "x", NULL, "Who.");
    metrics_number(&w, NULL, 1);
    metrics_end(&w);
}

Test(metrics, openmetrics_names_families_without_suffix_and_ends) {
    begin(true);
    one_counter();
    is("# HELP x_bytes What moved.\n# TYPE x_bytes counter\n# UNIT x_bytes bytes\n"
       "x_bytes_total{a=\"quote\\\" back\\\\ line\\n\",b=\"2\"} 7\n"
       "# HELP x Who.\n# TYPE x info\nx_info 1\n# EOF\n");
}

Test(metrics, the_older_format_names_families_as_their_samples) {
    begin(false);
    one_counter();
    is("# HELP x_bytes_total What moved.\n# TYPE x_bytes_total counter\n"
       "x_bytes_total{a=\"quote\\\" back\\\\ line\\n\",b=\"2\"} 7\n"
       "# HELP x_info Who.\n# TYPE x_info gauge\nx_info 1\n");
}

Test(metrics, a_histogram_counts_up_and_ends_with_all) {
    struct histogram h = {0};
    struct metrics_labels l = {0};
    histogram_add(&h, 512, 2);
    histogram_add(&h, 513, 1);
    histogram_add(&h, UINT64_C(100) * 1000000000, 1);
    begin(true);
    metrics_label(&l, "op", "read");
    metrics_family(&w, METRICS_HISTOGRAM, "t_seconds", "seconds", "Time.");
    metrics_histogram(&w, &l, &h);
    fclose(w.out);
    cr_expect(strstr(text, "\nt_seconds_bucket{op=\"read\",le=\"5.12e-07\"} 2\n"), "%s", text);
    cr_expect(strstr(text, "\nt_seconds_bucket{op=\"read\",le=\"1.024e-06\"} 3\n"), "%s", text);
    cr_expect(strstr(text, "le=\"17.179869184\"} 3\n"), "%s", text);
    cr_expect(strstr(text, "le=\"+Inf\"} 4\nt_seconds_sum{op=\"read\"} 100.000001537\n"), "%s",
              text);
    cr_expect(strstr(text, "\nt_seconds_count{op=\"read\"} 4\n"), "%s", text);
    free(text);
}

Test(metrics, a_label_that_is_too_long_is_cut_within_its_quotes) {
    char value[2 * LABELS_MAX];
    struct metrics_labels l = {0};
    memset(value, '"', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    metrics_label(&l, "a", value);
    size_t n = strlen(l.text);
    cr_expect_lt(n, sizeof(l.text));
    cr_expect(l.text[n - 1] == '"' && l.text[n - 2] == '"' && l.text[n - 3] == '\\', "%s", l.text);
    metrics_label(&l, "b", "2");
    cr_expect_eq(strlen(l.text), n, "no room is no label, not half a one");
}

/* ---- HTTP ---------------------------------------------------------------------------------- */

static enum metrics_answer judge(const char *request) {
    bool openmetrics;
    return metrics_http_judge(request, strlen(request), &openmetrics);
}

Test(metrics, a_scrape_is_answered_and_nothing_else) {
    cr_expect_eq(judge("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), METRICS_OK);
    cr_expect_eq(judge("GET /metrics?a=b HTTP/1.0\n\n"), METRICS_OK);
    cr_expect_eq(judge("GET / HTTP/1.1\r\n\r\n"), METRICS_NOT_FOUND);
    cr_expect_eq(judge("GET /metrics/../etc HTTP/1.1\r\n\r\n"), METRICS_NOT_FOUND);
    cr_expect_eq(judge("GET /metricsx HTTP/1.1\r\n\r\n"), METRICS_NOT_FOUND);
    cr_expect_eq(judge("POST /metrics HTTP/1.1\r\n\r\n"), METRICS_METHOD);
    cr_expect_eq(judge("HEAD /metrics HTTP/1.1\r\n\r\n"), METRICS_METHOD);
    cr_expect_eq(judge("GET /metrics HTTP/2\r\n\r\n"), METRICS_BAD);
    cr_expect_eq(judge("GET /metrics\r\n\r\n"), METRICS_BAD);
    cr_expect_eq(judge("\r\n\r\n"), METRICS_BAD);
    cr_expect_eq(judge("\n\n"), METRICS_BAD);
    cr_expect_eq(judge("GET  HTTP/1.1\r\n\r\n"), METRICS_NOT_FOUND);
}

Test(metrics, a_request_is_judged_when_its_head_is_whole) {
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    bool openmetrics;
    for (size_t n = 0; n < sizeof(request) - 1; n++)
        cr_expect_eq(metrics_http_judge(request, n, &openmetrics), METRICS_MORE, "%zu", n);
    char *endless = malloc(METRICS_REQUEST_MAX);
    memset(endless, 'a', METRICS_REQUEST_MAX);
    cr_expect_eq(metrics_http_judge(endless, METRICS_REQUEST_MAX - 1, &openmetrics), METRICS_MORE);
    cr_expect_eq(metrics_http_judge(endless, METRICS_REQUEST_MAX, &openmetrics), METRICS_LONG);
    free(endless);
}

Test(metrics, the_dialect_is_what_accept_says) {
    bool openmetrics;
    const char *with = "GET /metrics HTTP/1.1\r\naCCept: a/b, "
                       "application/openmetrics-text;version=1.0.0\r\n\r\n";
    const char *elsewhere = "GET /metrics HTTP/1.1\r\nX: application/openmetrics-text\r\n\r\n"
                            "Accept: application/openmetrics-text\r\n";
    cr_expect_eq(metrics_http_judge(with, strlen(with), &openmetrics), METRICS_OK);
    cr_expect(openmetrics);
    cr_expect_eq(metrics_http_judge(elsewhere, strlen(elsewhere), &openmetrics), METRICS_OK);
    cr_expect_not(openmetrics);
}

/* ---- devices ------------------------------------------------------------------------------- */

static char root[] = "/tmp/rdmad-hw-XXXXXX";

static void put(const char *path, const char *content) {
    char at[300], command[700];
    snprintf(at, sizeof(at), "%s/%s", root, path);
    snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", at);
    cr_assert_eq(system(command), 0);
    FILE *f = fopen(at, "w");
    fputs(content, f);
    fclose(f);
}

static uint64_t value_of(const struct hw_counters *c, const char *device, const char *name) {
    for (unsigned i = 0; i < c->count; i++)
        if (!strcmp(c->row[i].device, device) && !strcmp(c->row[i].name, name))
            return c->row[i].value;
    return UINT64_MAX;
}

Test(metrics, counters_of_devices_are_numbers_and_no_more_than_there_is_room_for) {
    struct hw_counters *c = malloc(sizeof(*c));
    char command[100], name[100];
    cr_assert_not_null(mkdtemp(root));
    hw_counters_read(root, c);
    cr_expect_eq(c->count, 0);
    put("dev0/ports/1/hw_counters/resent", "12\n");
    put("dev0/ports/1/hw_counters/lifespan", "10\n");
    put("dev0/ports/1/hw_counters/words", "none\n");
    put("dev0/ports/1/hw_counters/empty", "");
    put("dev0/ports/1/hw_counters/half", "12x\n");
    put("dev1/ports/2/hw_counters/resent", "18446744073709551615");
    put("dev1/ports/2/hw_counters/huge", "99999999999999999999");
    hw_counters_read(root, c);
    cr_expect_eq(c->count, 2, "%u", c->count);
    cr_expect_eq(value_of(c, "dev0", "resent"), 12);
    for (unsigned i = 0; i < HW_COUNTERS + 10; i++) {
        snprintf(name, sizeof(name), "dev2/ports/1/hw_counters/c%u", i);
        put(name, "1");
    }
    hw_counters_read(root, c);
    cr_expect_eq(c->count, HW_COUNTERS);
    snprintf(command, sizeof(command), "rm -r %s", root);
    cr_expect_eq(system(command), 0);
    free(c);
}

/* ---- bounds -------------------------------------------------------------------------------- */

Test(metrics, causes_beyond_the_table_count_as_other) {
    static struct audit_counts c;
    static char causes[AUDIT_COUNTS + 20][16];
    uint64_t sum = 0;
    for (unsigned i = 0; i < AUDIT_COUNTS + 20; i++) {
        snprintf(causes[i], sizeof(causes[i]), "cause.%u", i);
        audit_count_add(&c, AUDIT_REFUSED, causes[i]);
        audit_count_add(&c, AUDIT_REFUSED, causes[0]);
        audit_count_add(&c, (enum audit_event)(i % AUDIT_EVENTS), causes[i]);
    }
    cr_expect_leq(c.used, AUDIT_COUNTS);
    for (unsigned i = 0; i < c.used; i++)
        sum += c.row[i].count;
    cr_expect_eq(sum, 3 * (AUDIT_COUNTS + 20), "some were not counted");
    cr_expect_str_eq(c.row[c.used - 1].cause, "other");
}
