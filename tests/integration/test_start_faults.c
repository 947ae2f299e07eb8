/* SPDX-License-Identifier: MIT */
/*
 * test_start_faults.c - every fault of a start, enumerated: a daemon with an identity, metrics and
 * an audit file starts while each allocation, descriptor, mapping, thread, transfer of bytes and
 * call of a fabric that a start reaches fails once; over verbs what it asks of fabric and device.
 *
 * Either it says why and ends with an exit code, or it serves and ends well when it is told to.
 * What it leaves behind keeps no later start from serving. tests/soak takes every call of a start;
 * ./check a few of each kind.
 *
 *     RDMAD_FAULTS=memory:73 build/tests/fault/test_start_faults      one fault
 */
#include "tests/integration/fault_steer.h"
#include "tests/support/harness.h"
#include "tests/support/identities.h"
#include "tests/support/temp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FEW = 4, SAID = 16384 };

static struct bed {
    char dir[40], settings[64];
    struct tdaemon *daemon;
    struct fault_page *page;
    unsigned failures;
} bed;

static void write_settings(const char *path) {
    FILE *f = fopen(path, "we");
    CHECK(f &&
              fprintf(f,
                      "{\"identity\": {\"dir\": \"%s/node-0\"}, \"metrics\": {\"listen\": "
                      "\"unix\"}, \"audit\": {\"file\": \"%s/audit\"}}\n",
                      bed.dir, bed.dir) > 0 &&
              fclose(f) == 0,
          "%s: %s", path, strerror(errno));
}

static void bed_open(void) {
    char page[64];
    CHECK(temp_dir(bed.dir, sizeof(bed.dir), 20, "fault"), "%s: %s", bed.dir, strerror(errno));
    make_identities(bed.dir, 1);
    snprintf(bed.settings, sizeof(bed.settings), "%s/rdmad.json", bed.dir);
    write_settings(bed.settings);
    snprintf(page, sizeof(page), "%s/page", bed.dir);
    bed.page = fault_page_make(page);
    fault_page_use(page);
    tdaemon_use("tests/fault/rdmad_fault");
    bed.daemon = tdaemon_start("127.0.0.1", (const char *[]){"--config", bed.settings, NULL});
    tdaemon_end(bed.daemon);
}

static void bed_close(void) {
    char out[256];
    tdaemon_restart(bed.daemon);
    tdaemon_stop(bed.daemon);
    run_program((const char *[]){"/bin/rm", "-r", bed.dir, NULL}, out, sizeof(out));
}

/* How many calls of each kind a start reaches until it serves. */
static void count_calls(unsigned long calls[FAULT_KINDS]) {
    unsigned long before[FAULT_KINDS];
    for (unsigned k = 0; k < FAULT_KINDS; k++)
        before[k] = atomic_load(&bed.page->counts[k]);
    tdaemon_restart(bed.daemon);
    for (unsigned k = 0; k < FAULT_KINDS; k++)
        calls[k] = atomic_load(&bed.page->counts[k]) - before[k];
    tdaemon_end(bed.daemon);
}

/* Whether some line of it is a warning or an error with words: "rdmad: error: why" before there is
 * a log, "12:00:00.000 error: why" after. */
static bool says_why(const char *said) {
    return strstr(said, "error: ") || strstr(said, "rdmad: ");
}

static void wrong(enum fault_kind kind, long number, int status, const char *said) {
    bed.failures++;
    printf("  %s:%ld: wait status %#x, it said: %s\n", fault_kind_names[kind], number,
           (unsigned)status, said);
    fault_page_show(bed.page);
}

/* Whether it served. */
static bool try_start(enum fault_kind kind, long number) {
    char said[SAID] = "";
    fault_page_arm(bed.page, kind, number);
    int status = tdaemon_try_restart(bed.daemon, said, sizeof(said));
    fault_page_arm(bed.page, kind, 0);
    if (!status)
        tdaemon_end(bed.daemon);
    else if (!WIFEXITED(status) || !says_why(said))
        wrong(kind, number, status, said);
    if (getenv("RDMAD_FAULTS_SHOW")) {
        printf("  %s:%ld, wait status %#x: %s", fault_kind_names[kind], number, (unsigned)status,
               said);
        fault_page_show(bed.page);
    }
    return !status;
}

static void each_fault(enum fault_kind kind, long all, long few) {
    unsigned hit = 0, served = 0;
    long tried = 0, step = few ? 1 + all / few : 1;
    for (long n = 1 + (long)kind % step; n <= all; n += step, tried++) {
        served += try_start(kind, n);
        hit += atomic_load(&bed.page->failed);
    }
    printf("  %-10s %ld calls, %ld faults, %u hit, %u served all the same\n",
           fault_kind_names[kind], all, tried, hit, served);
    fflush(stdout);
}

static void any_call_of_a_start_may_fail(void) {
    const char *wanted = getenv("RDMAD_FAULTS");
    char kind[16] = "";
    unsigned long calls[FAULT_KINDS];
    long number = 0;
    if (wanted)
        sscanf(wanted, "%15[a-z]:%ld", kind, &number);
    bed_open();
    count_calls(calls);
    const char *fabric = getenv("RDMAD_TEST_FABRIC");
    const unsigned first = fabric && strcmp(fabric, "verbs") == 0 ? FAULT_FABRIC : 0;
    for (unsigned k = first; k < FAULT_KINDS; k++) {
        if (kind[0] && strcmp(kind, fault_kind_names[k]) != 0)
            continue;
        if (number)
            try_start((enum fault_kind)k, number);
        else
            each_fault((enum fault_kind)k, (long)calls[k], wanted || test_scale() >= 10 ? 0 : FEW);
    }
    CHECK(bed.failures == 0, "%u faults ended otherwise", bed.failures);
    bed_close();
}

TEST_MAIN(CASE(any_call_of_a_start_may_fail))
